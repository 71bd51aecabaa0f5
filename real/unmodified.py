"""Runs an unmodified program of torch.distributed on torch's own gloo. Each rank is a separate process.

    ranks = UnmodifiedRanks()
    run = ranks.run(target, world)          # journals with decisions and ends alone
    ranks.close()

A few warm processes have imported torch, and fork the ranks of each run (`real.unmodified_rank`). A fork keeps the hash
seed. So neighbouring ranks come from different processes, in another order in each run. The parent serves the store of
the job, as the agent of torchrun does.

A run hangs if the processes that are left have slept for `World.stall_ns`, and each is in a function of
torch.distributed. It ends at `World.deadline_ns` at the latest.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from dpsim.contract.ops import RawRecord
from dpsim.contract.program import Unmodified
from dpsim.contract.times import ActorTimes
from dpsim.contract.world import End, Lost, Run, World
from real.quiet import Quiet, busy_ns
from real.store import loopback_store
from real.unmodified_rank import is_user_file

WARM = 3
"""The number of warm processes, each with another hash seed."""

POLL_SECONDS = 0.02
STACK_SECONDS = 1.0
"""The time in which a process writes where it stands."""

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


class ForkedRank(NamedTuple):
    """The process of a rank in one run."""

    process: int

    def busy_ns(self) -> int | None:
        return busy_ns(self.process)

    def lives(self) -> bool:
        return Path(f"/proc/{self.process}").exists() if Path("/proc").exists() else True


class UnmodifiedRanks:
    """The warm processes of ranks. The first run starts them."""

    def __init__(self) -> None:
        self._warm: list[subprocess.Popen[str]] = []

    def run(self, target: Unmodified, world: World) -> Run:
        """Runs the program once. Raises Lost if a warm process ended."""
        self._start()
        store = loopback_store()
        with tempfile.TemporaryDirectory(prefix="dpsim-ranks-") as folder:
            job = {**target._asdict(), "folder": folder, "port": store.port, "seed": world.pauses or 0}
            job |= {"cwd": os.getcwd(), "size": world.size}
            began = time.monotonic_ns()
            order = Random(world.pauses).sample(self._warm, WARM)
            children = [ForkedRank(_child(order[rank % WARM], {**job, "rank": rank})) for rank in range(world.size)]
            try:
                observed = _watch(children, Path(folder), world)
                read = [_read(Path(folder), rank, child) for rank, child in enumerate(children)]
            finally:
                for child in children:
                    with suppress(ProcessLookupError):
                        os.kill(child.process, signal.SIGKILL)
        journals, times = [one[0] for one in read], [one[1] for one in read]
        ends = [one[2] for one in read]
        waited = [0] * world.size
        elapsed = time.monotonic_ns() - began
        return Run("gloo", journals, ends, waited, elapsed, observed, times=times)

    def close(self) -> None:
        """Ends all processes."""
        for warm in self._warm:
            warm.kill()
            warm.wait()
            for pipe in (warm.stdin, warm.stdout):
                if pipe is not None:
                    pipe.close()
        self._warm.clear()

    def _start(self) -> None:
        if self._warm:
            return
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        command, piped = [sys.executable, "-P", "-m", "real.unmodified_rank"], subprocess.PIPE
        for _ in range(WARM):
            self._warm.append(subprocess.Popen(command, env=environment, stdin=piped, stdout=piped, text=True))
        for warm in self._warm:
            _line(warm)


def _child(warm: subprocess.Popen[str], job: dict[str, Any]) -> int:
    assert warm.stdin is not None
    warm.stdin.write(json.dumps(job) + "\n")
    warm.stdin.flush()
    return int(_line(warm))


def _line(warm: subprocess.Popen[str]) -> str:
    assert warm.stdout is not None
    line = warm.stdout.readline()
    if not line:
        raise Lost(f"the process of a rank ended with {warm.wait()}")
    return line


def _watch(children: list[ForkedRank], folder: Path, world: World) -> str:
    began = time.monotonic_ns()
    known, quiet = -1, Quiet([], began)
    while True:
        now = time.monotonic_ns()
        left = [rank for rank, one in enumerate(children) if not (folder / f"{rank}.over").exists() and one.lives()]
        if not left:
            return ""
        if len(left) != known:
            known, quiet = len(left), Quiet([children[rank] for rank in left], now)
        if quiet.ns(now) > world.stall_ns:
            if all(_stands(folder, rank, children[rank])[0] for rank in left):
                return f"no rank moved for {world.stall_ns / 1e9:g} s"
            quiet = Quiet([children[rank] for rank in left], now)
        if now - began > world.deadline_ns:
            for rank in left:
                _stands(folder, rank, children[rank])
            return f"the run did not end within {world.deadline_ns / 1e9:g} s"
        time.sleep(POLL_SECONDS)


def _stands(folder: Path, rank: int, child: ForkedRank) -> tuple[bool, str]:
    """Returns whether the main thread of a rank is in a function of torch.distributed, and the program's line."""
    file = folder / f"{rank}.stack"
    before = file.stat().st_size if file.exists() else 0
    with suppress(ProcessLookupError):
        os.kill(child.process, signal.SIGUSR1)
    end = time.monotonic() + STACK_SECONDS
    while time.monotonic() < end and not (file.exists() and file.stat().st_size > before):
        time.sleep(POLL_SECONDS)
    frames = _FRAME.findall(file.read_text()[before:]) if file.exists() else []
    inside = bool(frames) and "torch/distributed" in frames[0][0]
    return inside, _user_line(frames)


def _user_line(frames: list[tuple[str, str]]) -> str:
    return next((f"{Path(name).name}:{line}" for name, line in frames if is_user_file(name)), "")


def _read(folder: Path, rank: int, child: ForkedRank) -> tuple[list[RawRecord], ActorTimes, End]:
    """Returns the journal of a rank, its times, and how it ended. The last record of a rank that hangs is its place."""
    notes = folder / f"{rank}.notes"
    noted = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    journal, times = [tuple(map(_frozen, fields)) for _, fields in noted], [at for at, _ in noted]
    end: End = "finished" if journal and journal[-1][0] == "finished" else "raised"
    if not (folder / f"{rank}.over").exists():
        end = "blocked" if child.lives() else "died"
    if end == "blocked":
        stack = folder / f"{rank}.stack"
        where = _user_line(_FRAME.findall(stack.read_text())) if stack.exists() else ""
        journal.append(("probe", 0, "main", "stands", 0, where))
        times.append(time.monotonic_ns())
    return journal, ActorTimes(times), end


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
