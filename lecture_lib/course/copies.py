"""A student's working copies in `work/`: made from `notebooks/`, brought up to date, set back, handed in.

A manifest records, for each copy, the digests of the upstream cells that it was made from. A copy whose cells
are still those is replaced when upstream changes; one that the student has changed is never touched: what
changed upstream is said, and `lecture reset NN` gets it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from lecture_lib import paths
from lecture_lib.course import notebook_files as files
from lecture_lib.course.headless import notebooks_folder
from lecture_lib.quantity import LectureError

MANIFEST = ".three_budgets_copies.json"
KEPT = "kept"
"""Folder in `work/` where what `reset` replaces is kept."""


def work_folder() -> Path:
    """Where the working copies are: `work/` in the clone, or in the current folder without one."""
    return (paths.project_root() or Path.cwd()) / "work"


# -- making and refreshing


def digests(node: NotebookNode) -> dict[str, str]:
    """{cell id: digest of its type and source}, in order: what makes a copy the same as its upstream."""
    return {
        cell.id: hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:16]
        for cell in node.cells
    }


def refresh(upstream: Path, work: Path) -> list[str]:
    """Makes the working copies that are missing and refreshes those that the student has not changed.

    Returns what the student should know, a line each. Never overwrites a changed copy.
    """
    try:
        work.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise LectureError(
            f"expected a folder {work} for your copies; there is a file or a broken link of that name; "
            "move it away"
        ) from None
    manifest = _read_manifest(work)
    said: list[str] = []
    for source in files.numbered(upstream):
        fresh = files.without_outputs(files.read(source).node)
        now, copy = digests(fresh), work / source.name
        base = manifest.get(source.name)
        if base is not None and list(base.items()) == list(now.items()) and copy.is_file():
            continue
        if copy.is_dir():
            said.append(f"{source.name}: a folder has the name of your copy; move it away to get one")
            continue
        if not copy.is_file():
            files.write(fresh, copy)
            manifest[source.name] = now
            continue
        try:
            mine = digests(files.read(copy).node)
        except LectureError as error:
            said.append(f"{source.name}: your copy is left as it is, though {error}")
            continue
        if list(mine.items()) == list(now.items()) or base is None:
            # Without a record nothing tells the student's changes from the course's: the copy stays.
            manifest[source.name] = now
        elif list(mine.items()) == list(base.items()):
            files.write(fresh, copy)
            manifest[source.name] = now
            said.append(f"{source.name}: the course changed it, and your copy, unchanged by you, with it")
        else:
            said.append(
                f"{source.name}: the course changed {_changes(base, now)}; your copy is left as it is. "
                f"`lecture reset {source.name[:2]}` gets the new one and keeps yours aside"
            )
    _copy_pictures(upstream, work)
    _write_manifest(work, manifest)
    return said


def _changes(old: dict[str, str], new: dict[str, str]) -> str:
    changed = [cell for cell in new if cell in old and old[cell] != new[cell]]
    parts = [
        ("", changed),
        ("added ", [cell for cell in new if cell not in old]),
        ("removed ", [cell for cell in old if cell not in new]),
    ]
    words = [f"{verb}{_first(cells)}" for verb, cells in parts if cells]
    return "; ".join(words) or "the order of its cells"


def _first(cells: Sequence[str]) -> str:
    more = f" and {len(cells) - 6} more" if len(cells) > 6 else ""
    return ", ".join(cells[:6]) + more


def _copy_pictures(upstream: Path, work: Path) -> None:
    for folder in (path for path in upstream.iterdir() if path.is_dir() and path.name[0] not in "._"):
        shutil.copytree(folder, work / folder.name, dirs_exist_ok=True)


def _read_manifest(work: Path) -> dict[str, dict[str, str]]:
    try:
        content = json.loads((work / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: cells for name, cells in content.items() if isinstance(cells, dict)}


def _write_manifest(work: Path, manifest: dict[str, dict[str, str]]) -> None:
    part = work / f"{MANIFEST}.part"
    part.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    part.replace(work / MANIFEST)


# -- lecture lab


def lecture_lab(browser: bool) -> int:
    """Brings the working copies up to date and starts JupyterLab on them; returns its exit code."""
    import importlib.util

    work = work_folder()
    for line in refresh(notebooks_folder(), work):
        print(line)
    if importlib.util.find_spec("jupyterlab") is None:
        raise LectureError(
            "expected JupyterLab; it is not installed here; `python -m pip install jupyterlab` gets it, "
            f"or open {work} in an editor that runs notebooks"
        )
    first = files.numbered(work)[0].name
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={work}"]
    command += [f"--LabApp.default_url=/lab/tree/{first}", *([] if browser else ["--no-browser"])]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container; JupyterLab would refuse
        command += ["--allow-root"]
    print(f"Your working copies are in {work}. JupyterLab starts; Ctrl-C here ends it.", flush=True)
    # JupyterLab gets the Ctrl-C too and asks whether it is meant; this process waits for its answer.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    server = subprocess.Popen(command, cwd=work)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    finally:
        signal.signal(signal.SIGINT, before)


# -- lecture reset


def lecture_reset(name: str) -> int:
    """One exercise ("4.1") or notebook ("04") of the working copies back to blank; the old one is kept."""
    work, upstream = work_folder(), notebooks_folder()
    exercise = name if "." in name and not name.endswith(".ipynb") else None
    source = _with_exercise(exercise, upstream) if exercise else files.find(name, upstream)
    fresh = files.without_outputs(files.read(source).node)
    copy = work / source.name
    if copy.is_dir():
        raise LectureError(f"expected your copy in {copy}; a folder has its name; move it away to get one")
    if not copy.is_file():
        refresh(upstream, work)
        print(f"{copy.name}: there was no copy of it; made one")
        return 0
    node = fresh
    if exercise is not None:
        try:
            node = _with_blank(files.read(copy).node, fresh, exercise)
        except LectureError as error:
            raise LectureError(f"{error}: `lecture reset {source.name[:2]}` gets one") from None
    kept = _keep_aside(copy)
    files.write(node, copy)
    if exercise is None:
        manifest = _read_manifest(work)
        manifest[source.name] = digests(fresh)
        _write_manifest(work, manifest)
    what = f"exercise {exercise}" if exercise else "the notebook"
    print(f"{copy.name}: {what} is blank again. Yours is kept as {kept}")
    return 0


def _with_exercise(exercise: str, upstream: Path) -> Path:
    known: list[str] = []
    for path in files.numbered(upstream):
        ids = files.exercise_ids(files.read(path).node)
        if exercise in ids:
            return path
        known += ids
    notebook = exercise.partition(".")[0].lstrip("0") or "0"
    near = [name for name in known if name.partition(".")[0] == notebook] or known
    raise LectureError(f"expected an exercise ({', '.join(near) or 'there are none'}); got {exercise}")


def _with_blank(mine: NotebookNode, fresh: NotebookNode, exercise: str) -> NotebookNode:
    """The student's notebook with one exercise's cells as upstream has them, where the first of them was."""
    blank = [cell for cell in fresh.cells if (found := files.role(cell)) and found[0] == exercise]
    blank_ids = {cell.id for cell in blank}
    belongs = [
        cell.id in blank_ids or ((found := files.role(cell)) is not None and found[0] == exercise)
        for cell in mine.cells
    ]
    if any(belongs):
        place = belongs.index(True)
    else:  # all deleted: after the last cell that stands before them upstream and is still there
        before = [cell.id for cell in fresh.cells[: fresh.cells.index(blank[0])]]
        places = [index for index, cell in enumerate(mine.cells) if cell.id in before]
        place = max(places, default=-1) + 1
    rest_before = [cell for cell, of_it in zip(mine.cells[:place], belongs[:place], strict=True) if not of_it]
    rest_after = [cell for cell, of_it in zip(mine.cells[place:], belongs[place:], strict=True) if not of_it]
    mine.cells = [*rest_before, *blank, *rest_after]
    return mine


def _keep_aside(copy: Path) -> Path:
    folder = copy.parent / KEPT
    folder.mkdir(exist_ok=True)
    stamp = f"{datetime.datetime.now():%Y-%m-%d-%H%M%S}"
    kept, number = folder / f"{copy.stem}-{stamp}.ipynb", 1
    while kept.exists():
        number += 1
        kept = folder / f"{copy.stem}-{stamp}-{number}.ipynb"
    shutil.copy2(copy, kept)
    return kept


# -- lecture submit


def lecture_submit(names: Sequence[str]) -> int:
    """Packs working copies, without outputs, into a zip to hand in; says what is in it and what is open."""
    work, upstream = work_folder(), notebooks_folder()
    chosen = [work / files.find(name, upstream).name for name in names] or files.numbered(work)
    chosen = list(dict.fromkeys(chosen))  # a notebook that is named twice goes in once
    absent = [path.name for path in chosen if not path.is_file()]
    if absent or not chosen:
        raise LectureError(
            f"expected copies in {work}; missing: {', '.join(absent) or 'all'}; `lecture lab` makes them"
        )
    target = _unused(work / f"submission-{datetime.datetime.now():%Y-%m-%d-%H%M%S}.zip")
    packed = {path.name: _handed_in(path, upstream / path.name) for path in chosen}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, _) in packed.items():
            archive.writestr(name, content)
    lines = [
        f"  {name}, {len(content) / 1e3:,.1f} kB: {remark}" for name, (content, remark) in packed.items()
    ]
    print(f"{target}, {target.stat().st_size / 1e3:,.1f} kB, to hand in:")
    print("\n".join(lines))
    return 0


def _handed_in(path: Path, upstream: Path) -> tuple[bytes, str]:
    """What goes into the zip for one copy, and what is said of it."""
    try:
        notebook = files.read(path)
    except LectureError as error:
        return path.read_bytes(), f"as it is, and a grader will not be able to read it: {error}"
    text = nbformat.writes(files.without_outputs(notebook.node), version=4)
    blanks = _answers(files.read(upstream).node) if upstream.is_file() else {}
    answers = _answers(notebook.node)
    gone = [exercise for exercise in blanks if exercise not in answers]
    open_ones = [name for name, blank in blanks.items() if answers.get(name, "").strip() == blank.strip()]
    answered = len(blanks) - len(gone) - len(open_ones)
    remarks = [f"answered {answered} of {len(blanks)}" if blanks else "no exercises"]
    if open_ones:
        remarks.append(f"unanswered: {', '.join(open_ones)}")
    if gone:
        remarks.append(f"the answer cell is gone: {', '.join(gone)} (`lecture reset ID` brings it back)")
    return text.encode(), "; ".join(remarks)


def _answers(node: NotebookNode) -> dict[str, str]:
    """{exercise: source of its answer cell}."""
    found: dict[str, str] = {}
    for cell in node.cells:
        entry = files.role(cell)
        if entry is not None and entry[1] == "answer":
            found.setdefault(entry[0], cell.source)
    return found


def _unused(path: Path) -> Path:
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate
