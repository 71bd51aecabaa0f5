"""Tests host threads in the simulation: how each ends, what threads share, and what faults and delays do to them."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, LEARNED_OUTCOME, SITE, THREAD
from dpsim.contract.program import Program
from dpsim.contract.schedule import Strategy
from dpsim.contract.world import At, Delay, Fault, Run, World
from dpsim.diagnose.injected import never_applied
from dpsim.sim.backend import SimBackend
from dpsim.sim.hosts.threads import Threads
from dpsim.sim.hosts.turns import TurningHost
from dpsim.sim.services.mailbox import Mailboxes
from tests.programs import Script, set_to, world_of
from tests.worlds.brute import outcome_of
from tests.worlds.random_threads import threaded_case

FIRST = [None, lambda label, options: 0]
"""Functions that choose the schedule: None for a timed run, and one that always picks the first event."""


class Threaded(Program[Any]):
    threaded = True

    def __init__(self, script: Script) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await self.script(rank)


def done(script: Script, world: World | None = None, **settings: Any) -> Run:
    return SimBackend(**settings).run_program(world or world_of(1, hosts=["h"]), Threaded(script), None)


def found(script: Script, world: World | None = None, **settings: Any) -> list[tuple[str, str]]:
    """Returns the class and the thread of each finding."""
    world = world or world_of(1, hosts=["h"])
    findings = judge(world, done(script, world, **settings))
    return [(finding.klass, finding.culprit.thread if finding.culprit else "") for finding in findings]


# ---- how a thread ends


async def leaves(rank: Rank) -> None:
    raise SystemExit(3)


async def raises(rank: Rank) -> None:
    raise ValueError("bad")


async def foreign(rank: Rank) -> None:
    await asyncio.sleep(0)


async def forgets(rank: Rank) -> None:
    rank.flag("f").wait("forgotten")


async def naps(rank: Rank) -> None:
    for _ in range(3):
        await rank.sleep(10, "nap")


async def idles(rank: Rank) -> None:
    await rank.mailbox("box").get("idle", idle=True)


async def spins(rank: Rank) -> None:
    while not await rank.flag("f").query("query"):
        pass


async def starts_another(rank: Rank) -> None:
    rank.start("u2", naps)


@pytest.mark.parametrize("choose", FIRST, ids=["timed", "untimed"])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (leaves, [("CRASH:SYSTEMEXIT", "u1")]),
        (raises, [("CRASH:VALUEERROR", "u1")]),
        (foreign, [("CRASH:FOREIGNAWAIT", "u1")]),
        (forgets, [("LEFTOVER:NEVER_AWAITED", "u1")]),
        (naps, []),
        (idles, []),
        (starts_another, []),
    ],
)
def test_a_thread_reports_its_end(program: Any, expected: list[tuple[str, str]], choose: Any) -> None:
    async def script(rank: Rank) -> None:
        rank.start("u1", program)

    assert found(script, choose=choose) == expected


@pytest.mark.parametrize("program", [leaves, raises, foreign])
def test_an_exception_that_join_raises_is_no_crash(program: Any) -> None:
    async def script(rank: Rank) -> None:
        assert await rank.start("u1", program).join("join")

    assert found(script) == []


def test_an_interrupt_in_a_thread_ends_the_run() -> None:
    async def interrupted(rank: Rank) -> None:
        signal.raise_signal(signal.SIGINT)

    async def script(rank: Rank) -> None:
        rank.start("u1", interrupted)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores SIGINT
    try:
        with pytest.raises(KeyboardInterrupt):
            done(script)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt])
def test_an_exception_of_an_unjoined_thread_is_a_finding(kind: type[BaseException]) -> None:
    async def raising(rank: Rank) -> None:
        raise kind

    async def script(rank: Rank) -> None:
        rank.start("u1", raising)

    assert found(script) == [(f"CRASH:{kind.__name__.upper()}", "u1")]


def test_a_rank_that_raises_takes_its_threads_with_it() -> None:
    async def script(rank: Rank) -> None:
        rank.start("u1", naps)
        raise ValueError("main")

    run = done(script)
    assert run.ends == ["raised"]
    assert judge(world_of(1), run)[0].klass == "CRASH:VALUEERROR"


def test_an_endless_poll_of_a_flag_is_a_livelock() -> None:
    async def script(rank: Rank) -> None:
        rank.start("u1", spins)

    assert found(script) == [("LIVELOCK:FLAG", "u1")]


def test_two_threads_that_poll_endlessly_are_a_livelock() -> None:
    async def polls(rank: Rank) -> None:
        while True:
            await rank.mailbox("box").poll("poll")

    async def script(rank: Rank) -> None:
        rank.start("u1", polls)
        await polls(rank)

    assert [klass for klass, _ in found(script)] == ["LIVELOCK:POLL"]


@pytest.mark.parametrize("choose", FIRST, ids=["timed", "untimed"])
def test_a_poll_loop_that_gets_its_answer_later_ends(choose: Any) -> None:
    """A query of a flag takes no time, but a loop of queries does not stop the clock. So the flag is set later."""

    async def script(rank: Rank) -> None:
        rank.start("u1", spins)
        await rank.sleep(1_000, "nap")
        rank.flag("f").set("set")

    assert found(script, choose=choose) == []


# ---- names


@pytest.mark.parametrize("choose", FIRST, ids=["timed", "untimed"])
def test_a_name_is_used_again(choose: Any) -> None:
    async def script(rank: Rank) -> None:
        for _ in range(3):
            assert await rank.start("u1", naps).join("join") is None

    assert found(script, choose=choose) == []


def test_two_threads_do_not_start_one_of_the_same_name() -> None:
    """Two threads start a thread of the same name. The second call raises, though neither name existed when both
    threads began.
    """

    async def starts(rank: Rank) -> None:
        rank.start("v", naps)

    async def script(rank: Rank) -> None:
        rank.start("u1", starts)
        rank.start("u2", starts)

    for seed in range(4):
        [(klass, thread)] = found(script, choose=lambda _, options, seed=seed: seed % len(options))
        assert (klass, thread in ("u1", "u2")) == ("CRASH:RUNTIMEERROR", True)


# ---- mailboxes


async def two_takers(rank: Rank) -> None:
    async def takes(rank: Rank) -> None:
        await rank.mailbox("box").get("get")

    if rank.rank == 0:
        rank.start("u1", takes)
        await takes(rank)
    else:
        rank.send(0, "box", 1, "send")
        rank.send(0, "box", 2, "send")


@pytest.mark.runs_once
def test_two_threads_never_take_the_same_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken() -> set[Any]:
        rng = random.Random(3)
        runs = [done(two_takers, world_of(2), choose=lambda _, options: rng.randrange(len(options))) for _ in range(30)]
        journals = [journal for run in runs for journal in run.journals]
        return {raw[LEARNED_OUTCOME] for journal in journals for raw in journal if raw[KIND] == "learned"}

    assert taken() == {1, 2}

    def looks_later(self: Mailboxes, box: Any, getter: Any) -> None:
        self._learn(getter, box.messages[0][1])

    monkeypatch.setattr(Mailboxes, "_give", looks_later)  # the twin
    assert None in taken()


# ---- limits of the world


def noted(target: Any) -> None:
    """A kernel whose label shows when it runs."""


@pytest.mark.runs_once
def same_order(seed: int) -> bool:
    """Whether the kernels of two threads ran in the order of their records, with a launch queue of one slot."""
    rng = random.Random(seed)

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        buffer = main.alloc(1, "int32", "buffer")

        async def beside(rank: Rank) -> None:
            main.launch("kernel.2", noted, writes=[buffer])

        rank.start("u1", beside)
        main.launch("kernel.1", noted, writes=[buffer])
        main.launch("kernel.3", noted, writes=[buffer])
        await buffer.read("read")

    run = done(script, world_of(1, launch_queue=1), choose=lambda _, options: rng.randrange(len(options)))
    assert run.finished, run.journals[0][-3:]
    issued = [int(raw[SITE][-1]) for raw in run.journals[0] if raw[KIND] == "launch"]
    ran = [int(found[1]) for label in run.order if (found := re.search(r"rank 0\S* kernel\.(\d)", label))]  # type: ignore[attr-defined]
    assert ran, run.order  # type: ignore[attr-defined]
    return issued[: len(ran)] == ran


@pytest.mark.runs_once  # the function that chooses has state
def test_threads_blocked_by_a_full_queue_continue_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(same_order(seed) for seed in range(40))
    monkeypatch.setattr(TurningHost, "turns", False)  # the faulty twin: the first thread continues
    assert not all(same_order(seed) for seed in range(40))


def test_a_thread_that_blocks_in_an_allocation_is_reported() -> None:
    """A thread blocks in an allocation. The journal contains its record, though the thread has no memory yet."""

    async def script(rank: Rank) -> None:
        async def fills(rank: Rank) -> None:
            main = rank.stream("main")
            first = main.alloc(1, "int32", "first")
            main.launch("fill", set_to, writes=[first], args=(1,))
            rank.device("d").all_reduce(first, main, site="sum")
            main.alloc(1 << 22, "int32", "second")
            rank.send(1, "box", "go", "send")

        if rank.rank == 0:
            await rank.start("u1", fills).join("join")
        else:
            await rank.mailbox("box").get("get")
            main = rank.stream("main")
            first = main.alloc(1, "int32", "first")
            main.launch("fill", set_to, writes=[first], args=(1,))
            rank.device("d").all_reduce(first, main, site="sum")

    world = world_of(2, devices=["d"], alloc_synchronises=True)
    for choose in FIRST:
        [first, *_] = judge(world, done(script, world, choose=choose))
        assert (first.klass, first.culprit and first.culprit.thread) == ("HANG:HOST:ALLOC", "u1")


# ---- faults and delays that a scenario plants


async def meets_beside(rank: Rank) -> None:
    async def meets(rank: Rank) -> None:
        await rank.sleep(5, "nap")
        await rank.host("h").barrier(site="meet")

    await rank.start("u1", meets).join("join")


@pytest.mark.parametrize("choose", FIRST, ids=["timed", "untimed"])
@pytest.mark.parametrize(
    ("more", "primary"),
    [
        ({"faults": (Fault("die", 1, At("nap", 0, thread="u1")),)}, "HANG:COLLECTIVE:DEAD_RANK"),
        ({"faults": (Fault("skip", 1, At("meet", 0, thread="u1")),)}, "HANG:COLLECTIVE:MISSING_RANK"),
        ({"delays": (Delay(1, At("nap", 0, thread="u1"), 1_000),)}, None),
        ({"delays": (Delay(1, At(thread="u1"), 1_000),)}, None),
    ],
)
def test_faults_and_delays_name_a_thread(more: dict[str, Any], primary: str | None, choose: Any) -> None:
    world = world_of(2, hosts=["h"], **more)
    run = done(meets_beside, world, choose=choose)
    assert never_applied(world, run) == []
    findings = judge(world, run)
    assert (findings[0].klass if findings else None) == primary


def test_a_missing_thread_is_reported() -> None:
    world = world_of(2, hosts=["h"], delays=(Delay(1, At("nap", 0, thread="u2"), 1_000),))
    [line] = never_applied(world, done(meets_beside, world))
    assert "rank 1 has no host thread 'u2'; it has main, u1" in line


# ---- repeated runs, and garbage of a run


class Follow(Strategy):
    """A strategy that fires the ops of a timed run in their order."""

    def __init__(self, order: Sequence[str]) -> None:
        self.order = [*order]

    def pick(self, candidates: Sequence[Any]) -> int:
        return [one.label for one in candidates].index(self.order.pop(0)) if self.order else 0

    def draw(self, label: str, options: Sequence[str]) -> int:
        return 0


def repeats_untimed(seeds: Sequence[int]) -> bool:
    for seed in seeds:
        case = threaded_case(seed)
        world = replace(case.world, kills=())
        seen = SimBackend(keep_order=True, memory=case.memory).run_program(world, case.program, case.args)
        follow = Follow(seen.order)
        try:
            again = SimBackend(choose=follow, memory=case.memory).run_program(world, case.program, case.args)
        except ValueError:
            return False
        if outcome_of(again) != outcome_of(seen) or follow.order:
            return False
    return True


@pytest.mark.runs_once
def test_the_machine_without_time_can_follow_a_timed_run_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without time can follow a timed run. In the faulty twin a thread does not give way to threads that
    continued before it in the timed run.
    """
    assert repeats_untimed(range(25))
    monkeypatch.setattr(TurningHost, "_give_way", lambda self: None)
    assert not repeats_untimed(range(25))


@pytest.mark.runs_once
@pytest.mark.parametrize(
    "choose", [pytest.param(FIRST[0], marks=pytest.mark.slow, id="timed"), pytest.param(FIRST[1], id="untimed")]
)
def test_a_run_leaves_no_cycles(choose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run leaves no cyclic garbage, even if a thread never returns. The faulty twin keeps its threads."""

    async def waits(rank: Rank) -> None:
        await rank.flag("f").wait("wait")

    async def script(rank: Rank) -> None:
        rank.start("u1", naps)
        rank.start("u2", waits)
        await rank.flag("g").wait("wait")

    def left() -> int:
        gc.collect()
        gc.disable()
        try:
            assert done(script, choose=choose).ends == ["blocked"]
            return gc.collect()
        finally:
            gc.enable()

    left()
    assert left() == 0
    monkeypatch.setattr(Threads, "forget", lambda self: None)
    assert left() > 0


def test_a_killed_rank_takes_all_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(2, hosts=["h"], faults=(Fault("die", 1, At("nap", 0, thread="u1")),))
    run = done(meets_beside, world)
    assert run.ends == ["blocked", "died"]
    assert {raw[THREAD] for raw in run.journals[1]} == {"main", "u1"}
