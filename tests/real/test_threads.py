"""Tests of host threads on real backends: each thread makes the calls that it makes on the simulation.

The journal has the order of the calls. If a thread raises or waits without end, the worker continues, and the next run
finishes. Tests marked for GPUs check the same on CUDA, and rules that only CUDA has.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from dpsim.contract.ops import (
    FLAG_HOW,
    INJECTED_WHAT,
    KIND,
    LEARNED_OUTCOME,
    MAIN,
    SITE,
    THREAD,
    WHERE,
    RawRecord,
    as_record,
)
from dpsim.contract.world import At, Delay, Fault, Run, World
from dpsim.sim.backend import SimBackend
from real.backend import TorchBackend
from real.journal_file import JournalFile
from real.journal_reader import unmoving_state
from tests.real import graph_programs, programs, thread_programs  # noqa: F401  # registers the test programs
from tests.real.test_conformance import decisions
from tests.real.thread_programs import TURNS, Batons, Captures, Ends
from tests.real.worlds import NCCL
from tests.records import raw, unplaced

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

SLOW_GLOO = pytest.param("gloo", marks=pytest.mark.slow)
"""Slow, because after a hang gloo's workers are killed and others start."""

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
on_all = pytest.mark.parametrize("backend", [SLOW_GLOO, "aborting", NCCL], indirect=True)
on_gpus = pytest.mark.parametrize("backend", [NCCL], indirect=True)

STALL_NS = 1_000_000_000


def threads_of(journal: list[RawRecord]) -> dict[str, list[RawRecord]]:
    """Returns the records of each host thread, in order."""
    threads: dict[str, list[RawRecord]] = defaultdict(list)
    for record in unplaced(journal):
        threads[record[THREAD]].append(record)
    return threads


def on_both(backend: TorchBackend, world: World, program: str, args: Any) -> Run:
    """Runs a program on the backend and on the simulation, and compares the journals thread by thread."""
    run, simulated = backend.run(world, program, args), SimBackend().run(world, program, args)
    for rank in range(world.size):
        assert threads_of(run.journals[rank]) == threads_of(simulated.journals[rank]), f"rank {rank}"
    assert (run.ends, run.lost) == (simulated.ends, "")
    return run


def good_run(backend: TorchBackend, world: World) -> None:
    """Checks that the next run on the same backend, with threads, finishes."""
    run = backend.run(world, "real_batons", {"how": "eager"})
    assert (run.ends, run.observed) == (["finished"] * 2, "")


def alone(backend: TorchBackend, world: World, how: str, stall_ns: int = STALL_NS, **more: Any) -> Run:
    """Runs `real_thread_ends`: rank 1 does what `how` says, and no rank waits for it."""
    args = {"how": how, "alone": True, "meets": False, **more}
    return backend.run(replace(world, stall_ns=stall_ns), "real_thread_ends", args)


def line_in(method: Any, line: int) -> str:
    return f"tests/real/thread_programs.py:{method.__code__.co_firstlineno + line}"


# ---- the same as on the simulation


def outputs(run: Run) -> list[list[Any]]:
    return [
        [one[LEARNED_OUTCOME] for one in journal if one[KIND] == "learned" and one[SITE] == "out"]
        for journal in run.journals
    ]


def turns(run: Run) -> list[list[str]]:
    """Returns the threads in the order in which their work reached the stream, for each rank."""
    journals = [
        [one for one in journal if one[SITE] == "work" and one[KIND] in ("launch", "kept")] for journal in run.journals
    ]
    return [[one[THREAD] for one in journal if one[THREAD] != MAIN] for journal in journals]


def one_by_one(start: int, order: list[str]) -> int:
    """Returns the checksum of the result of two ranks after these turns."""
    x = np.full(4, start, np.int64)
    for who in order:
        x = 2 * x + (1 if who == "even" else 5)
    return crc32(x.tobytes())


@on_each
def test_a_baton_between_two_threads(backend: TorchBackend, world: World) -> None:
    """Runs two threads that hand over a baton, eagerly and in a capture. Their work is on one stream and one
    communicator in the order of the baton.
    """
    order = ["even", "odd"] * TURNS
    eager = on_both(backend, world, "real_batons", {"how": "eager"})
    assert turns(eager) == [order] * 2
    assert outputs(eager) == [[one_by_one(2, order)]] * 2
    captured = on_both(backend, world, "real_batons", {"how": "captured"})
    assert turns(captured) == [order] * 2
    assert outputs(captured) == [[one_by_one(2, order), one_by_one(2, order * 2)]] * 2


@on_each
def test_a_baton_that_forgets_to_clear_is_seen(backend: TorchBackend, world: World) -> None:
    """The faulty twin: a thread does not clear its flag, so the order differs."""
    order = ["even"] * TURNS + ["odd"] * TURNS
    for how in ("eager", "captured"):
        run = backend.run(world, "real_batons", {"how": how, "forgets": True})
        assert run.finished
        assert turns(run) == [order] * 2
        assert outputs(run)[0][0] == one_by_one(2, order) != one_by_one(2, ["even", "odd"] * TURNS)


@on_each
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_the_capture_mode_decides_which_calls_of_another_thread_are_refused(
    backend: TorchBackend, world: World, mode: str
) -> None:
    """Runs calls of a thread while the main thread captures. In the mode "global", a call that returns data is refused,
    and destroys the capture. An exception of the program does not. A second capture is refused in any mode.
    """
    refused = (900, 901) if mode == "global" else (0, 0)
    for what, codes in {"read": refused, "query": refused, "capture": (902, 901), "nothing": (0, 0)}.items():
        run = on_both(backend, world, "real_thread_captures", {"how": "asks", "mode": mode, "what": what})
        assert decisions(run) == [{"u1": codes[0], "main": codes[1], "joined": None}] * 2, what
    run = on_both(backend, world, "real_thread_captures", {"how": "asks", "mode": mode, "what": "raise"})
    assert decisions(run) == [{"main": 0, "joined": "ValueError: in a capture"}] * 2


def mixed(order: list[int]) -> int:
    x = 0
    for value in order:
        x = (5 * x + value) % 1_000_003
    return x


@on_each
@pytest.mark.parametrize("how", ["races", "races_in_a_capture"])
def test_the_journal_has_the_order_of_issue(backend: TorchBackend, world: World, how: str) -> None:
    """Runs threads that call in a random order, with as many thread switches as Python can make. The result of a read
    fits the order of the records, and so do the numbers of buffers and events.
    """
    run = backend.run(world, "real_many_threads", {"how": how})
    assert run.finished, run
    for rank, journal in enumerate(run.journals):
        order = [int(one[THREAD][1:]) for one in journal if one[SITE] == "work" and one[THREAD] != MAIN]
        assert len(order) == 100
        assert outputs(run)[rank] == [crc32(np.array([mixed(order)], np.int64).tobytes())]
        for kind, field in (("alloc", "buffer"), ("mark", "event")) if how == "races" else ():
            numbers = [getattr(as_record(one), field) for one in journal if one[KIND] == kind]
            assert numbers == sorted(numbers) == [*range(len(numbers))]


def test_another_order_gives_another_number() -> None:
    """Checks that two orders of the threads give different results, on which the test above relies."""
    order = [0, 1, 2, 3] * 25
    swapped = [*order[:50], order[51], order[50], *order[52:]]
    assert mixed(order) != mixed(swapped)


# ---- how threads end


@on_each
def test_a_join_raises_the_exception_of_its_thread(backend: TorchBackend, world: World) -> None:
    run = on_both(backend, world, "real_thread_ends", {"how": "raises", "error": "value", "joins": True})
    assert run.finished
    assert decisions(run) == [{"learned": "ValueError: two words"}] * 2


@on_all
@pytest.mark.parametrize(
    ("error", "kind", "message"), [("value", "ValueError", "two words"), ("exit", "SystemExit", "3")]
)
def test_an_exception_of_an_unjoined_thread_is_a_crash(
    backend: TorchBackend, world: World, error: str, kind: str, message: str
) -> None:
    good_run(backend, world)
    before = backend.pool.processes
    run = alone(backend, world, "raises", error=error)
    assert run.ends == ["finished", "raised"]
    where = line_in(Ends.fails, 4)
    assert run.journals[1][-1] == raw("raised", kind, step=5, thread="u1", where=where, message=message)
    ended: Any = as_record(run.journals[1][-2])
    assert (ended.kind, ended.thread, ended.where, ended.message) == ("ended", "u1", where, f"{kind}: {message}")
    good_run(backend, world)
    assert backend.pool.processes == before


@pytest.mark.slow
@on_all
def test_a_thread_that_hangs_is_named_with_its_line(backend: TorchBackend, world: World) -> None:
    """Checks that the journal of a stuck thread ends with its wait, and that the report has the line of each thread."""
    run = alone(backend, world, "hangs")
    assert run.ends == ["finished", "blocked"]
    waits, joins = line_in(Ends.waits, 1), line_in(Ends.hangs, 2)
    assert run.observed == f"no rank moved for 1 s; rank 1: main at {joins}, u1 at {waits}"
    last = threads_of(run.journals[1])["u1"][-1]
    assert (last[KIND], last[FLAG_HOW], last[WHERE]) == ("flag", "wait", waits)
    good_run(backend, world)


@on_all
def test_main_that_raises_stops_its_threads(backend: TorchBackend, world: World) -> None:
    """Raises in the main thread while other threads wait in each possible call. They stop, the process runs the next
    job, and nothing is written after the end.
    """
    good_run(backend, world)
    before = backend.pool.processes
    run = alone(backend, world, "main_raises", stall_ns=10 * STALL_NS)
    assert run.ends == ["finished", "raised"]
    assert run.journals[1][-1][: SITE + 1] == ("raised", 3, MAIN, "ValueError")
    left = backend.run(world, "real_thread_ends", {"how": "counts"})
    assert decisions(left) == [{"threads": ()}] * 2
    assert backend.pool.processes == before


@pytest.mark.slow
@on_all
def test_a_thread_that_cannot_be_stopped_ends_its_process(backend: TorchBackend, world: World) -> None:
    good_run(backend, world)
    before = backend.pool.processes
    run = alone(backend, world, "leaves_one", stall_ns=10 * STALL_NS)
    assert run.ends == ["finished", "raised"]
    good_run(backend, world)
    assert not set(backend.pool.processes) & set(before)


@on_all
def test_a_thread_without_memory_is_no_verdict(backend: TorchBackend, world: World) -> None:
    run = alone(backend, world, "raises", error="memory", joins=True)
    assert run.lost == "rank 1: no memory"
    good_run(backend, world)


@pytest.mark.slow
@on_all
def test_a_rank_dies_in_a_thread(backend: TorchBackend, world: World) -> None:
    world_of_one_death = replace(world, faults=(Fault("die", 1, At("post", 0, thread="u1")),))
    run = alone(backend, world_of_one_death, "dies")
    assert run.ends == ["finished", "died"]
    died = run.journals[1][-1]
    assert (died[KIND], died[THREAD], died[INJECTED_WHAT]) == ("injected", "u1", "die")
    good_run(backend, world)


@on_each
def test_a_thread_is_late(backend: TorchBackend, world: World) -> None:
    """Delays a thread at its start, and at one of its sites. Only times change."""
    late = [Delay(1, At(thread="even"), 50_000_000), Delay(1, At("work", 1, thread="odd"), 50_000_000)]
    run = on_both(backend, replace(world, delays=tuple(late)), "real_batons", {"how": "eager"})
    assert run.finished
    assert run.elapsed_ns > 80_000_000


@pytest.mark.slow
@on_all
def test_threads_that_all_idle_have_ended_well(backend: TorchBackend, world: World) -> None:
    """Checks that a rank has finished if all its threads wait in idle gets. Its worker stays."""
    run = alone(backend, world, "idles", stall_ns=60 * STALL_NS)
    assert (run.ends, run.observed) == (["finished"] * 2, "")
    before = backend.pool.processes
    good_run(backend, world)
    assert backend.pool.processes == before


@pytest.mark.slow
@on_all
def test_an_idle_thread_beside_one_that_waits_is_a_hang(backend: TorchBackend, world: World) -> None:
    assert alone(backend, world, "idles_beside_one_that_waits").ends == ["finished", "blocked"]
    good_run(backend, world)


def test_a_rank_is_idle_only_while_all_its_threads_are_idle(tmp_path: Path) -> None:
    """Checks that a rank counts as idle only while all its started and unended threads are idle."""
    path = tmp_path / "journal"
    file = JournalFile(str(path))
    idle = raw("take", "box", mailbox="box", how="idle")
    for record, expected in [
        (raw("thread", "u1.start", name="u1", how="start"), False),
        (idle, False),
        (raw("take", "box", thread="u1", mailbox="box", how="idle"), True),
        (raw("learned", "box", outcome=1), False),
        (raw("thread", "join", name="u1", how="join"), False),
        (raw("learned", "box", thread="u1", outcome=1), False),
        (raw("ended", "end", thread="u1", message=""), False),
        (raw("learned", "join", outcome=None), False),
        (raw("flag", "set", flag="f", how="set"), False),
        (raw("take", "box", ordinal=1, mailbox="box", how="idle"), True),
        (raw("flag", "wait", flag="f", how="wait"), False),
        (raw("learned", "wait", outcome=None), True),
    ]:
        file.write(record)
        assert unmoving_state(path).idle == expected, record
    file.close()


# ---- rules of CUDA only


@on_gpus
def test_a_kernel_of_a_thread_that_waits_for_the_device_destroys_the_capture(
    backend: TorchBackend, world: World
) -> None:
    """Runs a kernel of a thread that waits for the device during a capture. The launch raises CUDA's code, and the
    capture ends with 901. The next run finishes on other processes.
    """
    good_run(backend, world)
    before = backend.pool.processes
    args = {"how": "asks", "mode": "global", "what": "synchronise"}
    run = backend.run(replace(world, stall_ns=20 * STALL_NS), "real_thread_captures", args)
    assert decisions(run) == [{"u1": 900, "main": 901, "joined": None}] * 2
    assert run.journals[0][0][WHERE].startswith("tests/real/thread_programs.py")
    assert Captures.threaded
    good_run(backend, world)
    assert not set(before) & set(backend.pool.processes)


@on_gpus
def test_no_memory_of_a_gpu_is_lost_by_threads(backend: TorchBackend, world: World) -> None:
    """Runs jobs with two threads, whose matrix products need workspaces of cuBLAS, eagerly and in a graph. Memory of
    other tests shows in one or two of the four differences, a leak in each.
    """
    free = []
    for _ in range(5):
        run = backend.run(world, "real_thread_products", {"how": "multiplies"})
        assert run.finished, run
        free.append([one["free"] for one in decisions(backend.run(world, "real_free_memory", {}))])
    lost = [[before - after for before, after in pairwise(own)] for own in zip(*free, strict=True)]
    assert max(map(statistics.median_low, lost)) < 1 << 20


def test_only_the_programs_with_threads_declare_them() -> None:
    """Checks that only the programs of these tests declare threads."""
    assert Batons.threaded
    assert not programs.Rounds.threaded
