"""Notebook files: which one is meant, and what is in it, whatever state the file is in.

Every problem is one `LectureError` whose text is one line; what could be mended in memory is told in notes.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from lecture_lib.quantity import LectureError

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
METADATA = "three_budgets"
"""Key of the course's own entry in a notebook's and a cell's metadata."""

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LOOKS_LIKE = [  # how a file that is no JSON begins, and what it is then
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"version https://git-lfs", "a Git LFS pointer (run `git lfs pull`)"),
]


@dataclass(frozen=True)
class Notebook:
    """A notebook in memory, in format 4, with what had to be mended to read it."""

    path: Path
    node: NotebookNode
    notes: list[str] = field(default_factory=list)


def numbered(folder: Path) -> list[Path]:
    """The course's notebooks in `folder`, in their order: `00_start_here.ipynb`, `01_tensors.ipynb`, …"""
    return sorted(path for path in folder.glob("[0-9][0-9]_*.ipynb") if path.is_file())


def find(name: str, folder: Path) -> Path:
    """The file that a person means by `name`: a number ("04", "4"), a name ("04_flops"), or a path.

    Raises LectureError where there is none, with the names that come near.
    """
    course = numbered(folder)
    if not name.strip():
        raise LectureError("expected a notebook's number or file; got an empty name")
    if name.isdecimal():
        for path in course:
            if int(path.name[:2]) == int(name):
                return path
        known = ", ".join(path.name[:2] for path in course) or "none"
        raise LectureError(f"expected the number of a notebook ({known}); got {name}")
    for path in course:
        if name in (path.stem, path.name) and not Path(name).is_file():
            return path
    given = Path(name)
    if given.is_dir():
        raise LectureError(f"expected a notebook; {name} is a folder; name the notebooks in it")
    if given.is_file():
        return given
    if given.is_symlink():
        raise LectureError(f"{name} is a link to a file that is not there; name the file itself")
    if given.exists():
        raise LectureError(f"expected a notebook; {name} is no ordinary file")
    near = {path.stem: path.name for path in course}
    if given.parent.is_dir():
        near |= {path.stem: str(given.parent / path.name) for path in given.parent.glob("*.ipynb")}
    close = [near[stem] for stem in difflib.get_close_matches(given.stem, near, n=2, cutoff=0.6)]
    meant = f"did you mean {' or '.join(close)}?" if close else "look for a slip in its name"
    raise LectureError(f"there is no file {name}; {meant}")


def read(path: Path) -> Notebook:
    """The notebook in `path`, brought to format 4 and made valid in memory; the file is not touched.

    Raises LectureError, in one line, where the file is no notebook or is broken.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise LectureError(f"there is no file {path}") from None
    except OSError as error:
        raise LectureError(f"{path.name} cannot be read: {error.strerror or error}") from None
    notes: list[str] = []
    content = _json(_text(raw, path.name, notes), path.name)
    node = _as_version_4(content, path.name, notes)
    _mend(node, path.name, notes)
    return Notebook(path, node, notes)


def _text(raw: bytes, name: str, notes: list[str]) -> str:
    if not raw.strip():
        raise LectureError(f"{name} is empty")
    for start, kind in _LOOKS_LIKE:
        if raw.lstrip()[: len(start)].lower() == start.lower():
            raise LectureError(f"{name} is no notebook: it is {kind}")
    encoding = "utf-8-sig"
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
        notes.append("was saved as UTF-16; read as such")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise LectureError(f"{name} is no UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _json(text: str, name: str) -> Any:
    if re.search(r"^<{7} ", text, re.MULTILINE) and re.search(r"^>{7} ", text, re.MULTILINE):
        line = text[: text.index("<<<<<<< ")].count("\n") + 1
        raise LectureError(f"{name} holds the markers of an unresolved merge (line {line}); resolve it first")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated")
        state = "is cut off" if at_end else "is no valid JSON"
        raise LectureError(f"{name} {state} (line {error.lineno}: {error.msg}); take a fresh copy") from None
    except RecursionError:
        raise LectureError(f"{name} is no notebook: it is nested without end") from None


def _as_version_4(content: Any, name: str, notes: list[str]) -> NotebookNode:
    if not isinstance(content, dict) or not ("cells" in content or "worksheets" in content):
        raise LectureError(f"{name} is JSON, but no notebook: it has no cells")
    version = content.get("nbformat", 4)
    if not isinstance(version, int) or isinstance(version, bool) or not 3 <= version <= 4:
        raise LectureError(f"{name} has notebook format {version!r}; expected 4 (or 3)")
    if version == 3:
        notes.append("is in notebook format 3; upgraded in memory")
    # Half a surrogate pair cannot be written out again: it becomes "?".
    content = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
    content.setdefault("nbformat", 4)
    if not isinstance(content.get("nbformat_minor"), int):
        content["nbformat_minor"] = 5 if version == 4 else 0
    if version == 4:
        content["nbformat_minor"] = min(content["nbformat_minor"], 5)
        if not isinstance(content["cells"], list) or not all(isinstance(c, dict) for c in content["cells"]):
            raise LectureError(f"{name} is JSON, but no notebook: its cells are no list of cells")
        content["metadata"] = content.get("metadata") if isinstance(content.get("metadata"), dict) else {}
        for cell in content["cells"]:
            _complete(cell)
    try:
        node = nbformat.from_dict(_joined(content)) if version == 4 else nbformat.v3.to_notebook_json(content)
        return nbformat.convert(node, 4)
    except Exception as error:
        raise LectureError(f"{name} is no notebook that can be read: {_one_line(error)}") from None


def _complete(cell: dict[str, Any]) -> None:
    """Gives a cell of format 4 the keys that some programs leave out."""
    if cell.get("cell_type") not in ("code", "markdown", "raw"):
        cell["cell_type"] = "raw"
    if not isinstance(cell.get("metadata"), dict):
        cell["metadata"] = {}
    if cell["cell_type"] == "code":
        cell["outputs"] = cell["outputs"] if isinstance(cell.get("outputs"), list) else []
        cell.setdefault("execution_count", None)
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)


def _joined(content: dict[str, Any]) -> dict[str, Any]:
    """Joins texts that are stored as lists of lines, in sources and in outputs."""
    for cell in content["cells"]:
        source = cell.get("source", "")
        cell["source"] = "".join(map(str, source)) if isinstance(source, list) else str(source or "")
    return nbformat.v4.rwbase.rejoin_lines(nbformat.from_dict(content))


def _mend(node: NotebookNode, name: str, notes: list[str]) -> None:
    seen: set[str] = set()
    renamed = 0
    node.nbformat_minor = 5
    for number, cell in enumerate(node.cells):
        given = cell.get("id")
        if not isinstance(given, str) or not _CELL_ID.fullmatch(given) or given in seen:
            renamed += given is not None
            cell["id"] = _free_id(number, seen)
        seen.add(cell["id"])
    if renamed:
        notes.append(f"{renamed} cell ids were repeated or not valid; renamed in memory")
    language = (node.metadata.get("kernelspec") or {}).get("language") or (
        node.metadata.get("language_info") or {}
    ).get("name", "python")
    if str(language).lower() not in ("python", "python3", "ipython"):
        raise LectureError(f"{name} is written in {language}; expected Python")
    try:
        nbformat.validate(node, relax_add_props=True)
    except nbformat.ValidationError as error:
        outputs_cleared = _clear_outputs_that_are_not_valid(node)
        if not outputs_cleared:
            raise LectureError(f"{name} is no valid notebook: {_one_line(error.message)}") from None
        notes.append("has stored outputs that are not valid; left out")


def _free_id(number: int, seen: set[str]) -> str:
    candidate = f"cell-{number}"
    while candidate in seen:
        candidate += "x"
    return candidate


def _clear_outputs_that_are_not_valid(node: NotebookNode) -> bool:
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    node.metadata = nbformat.from_dict({k: node.metadata[k] for k in (METADATA,) if k in node.metadata})
    try:
        nbformat.validate(node, relax_add_props=True)
    except nbformat.ValidationError:
        return False
    return True


def _one_line(error: object) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:157] + "…"


def code_cells(node: NotebookNode) -> list[NotebookNode]:
    """The code cells, in order, as nbval counts them (from 0)."""
    return [cell for cell in node.cells if cell.cell_type == "code"]


def tags(cell: NotebookNode) -> list[str]:
    """A cell's tags; empty where it has none."""
    found = cell.metadata.get("tags", [])
    return list(found) if isinstance(found, list) else []


def role(cell: NotebookNode) -> tuple[str, str] | None:
    """(exercise id, "prompt" | "answer" | "check") of a cell of an exercise; None for the others."""
    entry = cell.metadata.get(METADATA)
    if not isinstance(entry, dict) or not isinstance(entry.get("exercise"), str):
        return None
    return entry["exercise"], str(entry.get("role", ""))


def exercise_ids(node: NotebookNode) -> list[str]:
    """The exercises of a notebook, in the order of their first cell."""
    return list(dict.fromkeys(found[0] for cell in node.cells if (found := role(cell))))


def without_outputs(node: NotebookNode) -> NotebookNode:
    """A copy with outputs, execution counts and what a program noted about a run taken out."""
    node = copy.deepcopy(node)
    node.metadata.pop("widgets", None)
    node.metadata.pop("papermill", None)
    for cell in node.cells:
        for key in ("execution", "papermill", "collapsed"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    return node


def write(node: NotebookNode, path: Path) -> None:
    """Writes a notebook whole or not at all: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = nbformat.writes(node, version=4)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8", newline="\n")
    part.replace(path)


def stems(paths: Iterable[Path]) -> list[str]:
    """A name for each path, unlike each other: two of one name become `04_flops` and `04_flops-2`."""
    names: list[str] = []
    for path in paths:
        name, number = path.stem, 1
        while name in names:
            number += 1
            name = f"{path.stem}-{number}"
        names.append(name)
    return names


def unique(paths: Sequence[Path]) -> list[Path]:
    """The paths, each file once."""
    seen: dict[Path, Path] = {}
    for path in paths:
        seen.setdefault(path.resolve(), path)
    return list(seen.values())
