"""Counts the Python functions of dpsim that each op calls on a real backend.

Between calls of CUDA, a function call costs several times what it costs in a loop. A test cannot check the time, but it
can check the number of calls. The test uses a device that does nothing, and writes a journal. Functions of torch and of
the test do not count, nor do comprehensions, which are functions up to Python 3.11.

If a number grew, the op is slower on GPUs, so look for the added call. If a number shrank, update it here.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from dpsim.backend.graphs.kernel_call import TRIALS
from dpsim.contract.interface import Rank
from real.journal_file import JournalFile
from real.threads import drive
from tests import ROOT
from tests.real.null_device import NullCalls, null_rank

OURS = tuple(f"{ROOT / package}/" for package in ("dpsim", "real"))


def called(op: Callable[[], object]) -> Counter[str]:
    """Returns the functions of dpsim that `op` calls, with their counts."""
    found: Counter[str] = Counter()

    def look(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and not code.co_name.startswith("<"):
            found[code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        op()
    finally:
        sys.setprofile(before)
    return found


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Rank]:
    file = JournalFile(str(tmp_path / "journal"))
    yield null_rank(NullCalls(), file.write)
    file.close()


def fill(*buffers: Any) -> None:
    """A kernel that does nothing."""


def awaited(work: Any) -> None:
    for _ in work.__await__():
        raise AssertionError("it suspends")


def alloc(rank: Rank) -> Callable[[], object]:
    main = rank.stream("main")
    return lambda: main.alloc((4, 2), "int32", "buffer")


def free(rank: Rank) -> Callable[[], object]:
    buffers = [rank.stream("main").alloc(4, "int32", "buffer") for _ in range(3)]
    return lambda: buffers.pop().free()


def launch(rank: Rank) -> Callable[[], object]:
    main = rank.stream("main")
    buffer = main.alloc(4, "int32", "buffer")
    return lambda: main.launch("fill", fill, writes=[buffer], args=(3,))


def launch_that_reads(rank: Rank) -> Callable[[], object]:
    main = rank.stream("main")
    one, other = main.alloc(4, "int32", "buffer"), main.alloc(4, "int32", "buffer")
    return lambda: main.launch("fill", fill, reads=[one], writes=[other])


def all_reduce(rank: Rank) -> Callable[[], object]:
    main, group = rank.stream("main"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")
    return lambda: group.all_reduce(buffer, main, site="sum")


def broadcast_between_streams(rank: Rank) -> Callable[[], object]:
    main, side, group = rank.stream("main"), rank.stream("side"), rank.device("dp")
    buffer = main.alloc(4, "int32", "buffer")

    def op() -> None:
        group.all_reduce(buffer, main, site="sum")
        side.wait_stream(main)
        group.broadcast(buffer, 0, side, site="tell")

    return op


def read(rank: Rank) -> Callable[[], object]:
    buffer = rank.stream("main").alloc(4, "int32", "buffer")
    return lambda: awaited(buffer.read("read"))


def host_all_reduce(rank: Rank) -> Callable[[], object]:
    group, mine = rank.host("dp_cpu"), np.zeros((4, 2), np.int32)
    return lambda: awaited(group.all_reduce(mine, site="sum"))


def replay_of_eight_layers(rank: Rank) -> Callable[[], object]:
    main, group, graph = rank.stream("main"), rank.device("dp"), rank.graph("g")
    buffer = main.alloc(4, "int32", "buffer")

    async def capture() -> None:
        async with graph.capture(main):
            for _ in range(8):
                main.launch("fill", fill, writes=[buffer], args=(3,))
                group.all_reduce(buffer, main, site="sum")

    drive(capture())
    return lambda: graph.replay(main, "replay")


def warm_up(op: Any) -> int:
    """Returns how often the test calls an op before it counts: dpsim checks a kernel in its first calls."""
    return TRIALS if op in (launch, launch_that_reads) else 1


@pytest.mark.parametrize(
    ("op", "calls"),
    [
        (alloc, 4),
        (free, 4),
        (launch, 3),
        (launch_that_reads, 5),
        (all_reduce, 3),
        (broadcast_between_streams, 31),
        (read, 8),
        (host_all_reduce, 17),
        (replay_of_eight_layers, 38),
    ],
)
def test_calls_of_an_op(rank: Rank, op: Callable[[Rank], Callable[[], object]], calls: int) -> None:
    once = op(rank)
    for _ in range(warm_up(op)):
        once()  # lookups of the first call
    found = called(once)
    assert found.total() == calls, dict(found)


def test_a_layer_more_is_seen(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: one more function of dpsim around an existing one increases the count."""
    from dpsim.backend.journal.journal import Journal

    once = alloc(rank)
    once()
    before = called(once).total()
    source = "def number(self, what): return inner(self, what)"
    code = compile(source, f"{ROOT}/dpsim/backend/journal/journal.py", "exec")
    names: dict[str, Any] = {"inner": Journal.number}
    exec(code, names)
    monkeypatch.setattr(Journal, "number", names["number"])
    assert called(once).total() == before + 1
