"""Trains a small network on several processes of this machine, and weighs what each of them holds.

`train_on_ranks` starts `python -m lecture_lib.measuring.ranks` once for each rank: a fresh interpreter on any
system, since a fork after torch's threads have started hangs. The ranks meet at a file, talk by gloo over
loopback, take one step with replicated and one with sharded states (FSDP2's `fully_shard`), and leave
numbers behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lecture_lib
from lecture_lib.accounting.inputs import chain_widths
from lecture_lib.quantity import LectureError, Ledger, Quantity

WAYS = ("replicated", "sharded")
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # elsewhere gloo finds an interface itself
_PAUSE = 0.05  # s between two looks at the processes


@dataclass(frozen=True)
class Rank:
    """What one rank held after a step of AdamW in FP32, and what it had learned.

    states:       bytes of parameters, gradients, first and second moment (rows as in `model_states`), and of
                  the optimizer's step counters, each storage once
    weights_norm: of all weights together, after the step: the same wherever the same step was taken
    """

    states: Ledger
    weights_norm: float


def train_on_ranks(
    widths: Sequence[int], ranks: int = 2, time_limit: float = 120.0
) -> dict[str, tuple[Rank, ...]]:
    """One data-parallel step of a chain of linear layers, replicated and then sharded, on `ranks` processes.

    widths: [d_in, …, d_out]; layers have ReLU between them and no biases, as in `networks.mlp`.
    Every process has the same first weights and rows of its own; gradients are averaged. Returns what each
    rank held, by "replicated" and "sharded". Always on the CPU: two ranks of NCCL need two GPUs.
    No process outlives the call. LectureError, with what the processes said, if one fails or `time_limit`
    seconds pass, or where this torch has no torch.distributed.
    """
    import torch.distributed  # here, where it is needed: importing this module stays quick

    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        raise LectureError(
            "expected a torch with torch.distributed and gloo; this one was built without; "
            "`python3 start.py` installs one that has them"
        )
    chain = chain_widths(widths)
    if isinstance(ranks, bool) or not isinstance(ranks, int) or not 1 <= ranks <= 8:
        raise LectureError(f"expected 1 to 8 ranks on one machine; got {ranks!r}")
    # A process that hangs may keep a file open, which Windows does not remove.
    with tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        task = {"widths": chain, "ranks": ranks, "time_limit": time_limit}
        (place / "task.json").write_text(json.dumps(task), encoding="utf-8")
        _run(place, ranks, time_limit)
        found = [json.loads((place / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    return {way: tuple(_rank(way, i, data[way]) for i, data in enumerate(found)) for way in WAYS}


def _rank(way: str, number: int, data: Mapping[str, Any]) -> Rank:
    rows = {row: Quantity(size, "B", name=row) for row, size in data["states"].items()}
    return Rank(Ledger(rows, name=f"{way}: held by rank {number}"), data["weights_norm"])


# -- the parent


def _run(place: Path, ranks: int, time_limit: float) -> None:
    """Starts the ranks, waits for all, and ends those that are left, whatever happens."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(ranks):
            with (place / f"{rank}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "lecture_lib.measuring.ranks", str(place), str(rank)],
                        cwd=place,
                        env=_environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        end = time.monotonic() + time_limit
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break
            if time.monotonic() > end:
                raise LectureError(
                    f"expected {ranks} ranks to end within {time_limit:g} s; they did not; try again, and if "
                    f"a firewall asks, let Python talk to this machine itself{_said(place, ranks)}"
                )
            time.sleep(_PAUSE)
        failed = [rank for rank, process in enumerate(processes) if process.poll()]
        if failed:
            raise LectureError(
                f"expected every rank to finish; rank {failed[0]} ended with code "
                f"{processes[failed[0]].returncode}{_said(place, ranks)}"
            )
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    course = str(Path(lecture_lib.__file__).resolve().parents[1])
    paths = [course, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    environment["CUDA_VISIBLE_DEVICES"] = ""  # the ranks are on the CPU: no memory of a GPU for them
    if sys.platform in _LOOPBACK:
        environment["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):  # of a run that this one is not part of
        environment.pop(name, None)
    return environment


def _said(place: Path, ranks: int) -> str:
    """The last line of each rank's output, for the error message."""
    told = []
    for rank in range(ranks):
        log = place / f"{rank}.log"
        lines = (
            log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.is_file() else []
        )
        if lines:
            told.append(f"rank {rank} said: {lines[-1].strip()[:300]}")
    return "; " + "; ".join(told) if told else ""


# -- a rank


def _main(place: Path, rank: int) -> None:
    from datetime import timedelta

    import torch.distributed as dist

    task = json.loads((place / "task.json").read_text(encoding="utf-8"))
    limit = timedelta(seconds=task["time_limit"])  # of any wait: a rank whose parent is gone ends too
    store = dist.FileStore(str(place / "store"), task["ranks"])  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=rank, world_size=task["ranks"], timeout=limit)
    try:
        found = {way: _step(task["widths"], rank, way) for way in WAYS}
    finally:
        dist.destroy_process_group()
    (place / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")


def _step(widths: Sequence[int], rank: int, way: str) -> dict[str, Any]:
    """One step, from weights that are the same on every rank, over rows of this rank."""
    import numpy
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from lecture_lib.measuring.storage import storage_bytes

    same, own = numpy.random.default_rng(0), numpy.random.default_rng(1 + rank)
    layers: list[nn.Module] = []
    for d_in, d_out in zip(widths[:-1], widths[1:], strict=True):
        layers += [nn.Linear(d_in, d_out, bias=False), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for weight in model.parameters():
            values = same.uniform(-0.1, 0.1, tuple(weight.shape)).astype("float32")
            weight.copy_(torch.from_numpy(values))
    network: nn.Module = model
    if way == "replicated":
        network = DistributedDataParallel(model, gradient_as_bucket_view=True)
    else:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))  # else an accelerator's, where there is one
        for layer in layers[::2]:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    rows = torch.from_numpy(own.uniform(-1, 1, (16, widths[0])).astype("float32"))
    network(rows).square().mean().backward()
    optimizer.step()

    weights, state = list(model.parameters()), list(optimizer.state.values())
    held = {
        "parameters": weights,
        "gradients": [weight.grad for weight in weights],
        "first moment": [kept["exp_avg"] for kept in state],
        "second moment": [kept["exp_avg_sq"] for kept in state],
        "step counters": [kept["step"] for kept in state],
    }
    whole = [w.full_tensor() if way == "sharded" else w for w in weights]  # type: ignore[attr-defined]
    norm = sum(float(w.detach().double().square().sum()) for w in whole) ** 0.5
    return {"states": {row: int(storage_bytes(kept)) for row, kept in held.items()}, "weights_norm": norm}


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
