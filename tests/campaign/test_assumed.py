"""Tests the assumptions that a verdict names. For each row of the table of assumptions, one world prints its words, and
another world does not.
"""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpsim.campaign.assumptions import Facts, assumed
from dpsim.campaign.assumptions.graphs import CHOSEN, NEITHER
from dpsim.campaign.assumptions.ranks import ABORT_WAITS, SHARE_NOTHING
from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Statement
from dpsim.campaign.assumptions.table import rows
from dpsim.campaign.assumptions.transport import MAIL, NO_EARLY_READ
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Delay, Fault, Kill, Message, Stranger, World
from dpsim.scenario import scenario_from
from tests.alone import programs as alone_programs  # noqa: F401 - it registers
from tests.checks.test_replays_at_once import WORLD as TWO_GRAPHS
from tests.checks.test_replays_at_once import two_graphs, waits
from tests.programs import Script, Scripted, copy, explored, set_to, touch, world_of

NO_SCENARIO = f"{SHARE_NOTHING}: not checked, because it was not made from a scenario"

DEVICE = (
    "no rank dies",
    NO_SCENARIO,
    "unlimited residency",
    "communicators are connected",
    "unlimited launch queue",
    "no allocation waits",
    OTHERWISE,
)

# ---- scripts


async def kernels(rank: Rank) -> None:
    main = rank.stream("main")
    main.launch("touch", touch, writes=[main.alloc(1, "int32", "x")])


def outside(touches: Callable[[], Any]) -> Case:
    """Returns a world whose rank touches something outside of the contract, and then goes on as it would without."""

    async def script(rank: Rank) -> None:
        touches()
        rank.stream("main").launch("touch", touch)

    return Case(ALONE, script)


def starts_a_thread() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


async def bare_kernel(rank: Rank) -> None:
    rank.stream("main").launch("touch", touch)


async def two_streams(rank: Rank) -> None:
    rank.stream("main").launch("one", touch)
    rank.stream("side").launch("other", touch)


async def sums(rank: Rank) -> None:
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    main.launch("fill", set_to, writes=[x], args=(1,))
    rank.device("dp").all_reduce(x, main)


async def sums_and_sends(rank: Rank) -> None:
    await sums(rank)
    main = rank.stream("main")
    x = main.alloc(1, "int32", "y")
    main.launch("fill.y", set_to, writes=[x], args=(1,))
    if rank.rank:
        rank.device("dp").recv(x, 0, main, site="recv")
    else:
        rank.device("dp").send(x, 1, main, site="send")


async def agrees(rank: Rank) -> None:
    await rank.host("cpu").all_reduce(np.array([1]), site="sum")


async def rounds(rank: Rank) -> None:
    await rank.host("cpu").all_reduce(np.array([2.0**24 if rank.rank == 2 else 1], np.float32), site="sum")


async def averages(rank: Rank) -> None:
    array = np.array([2.0**24 if rank.rank == 2 else 1], np.float32)
    await rank.host("cpu").all_reduce(array, op="avg", site="average")


async def posts_and_agrees(rank: Rank) -> None:
    rank.send(0, "box", "hello", "tell")
    await agrees(rank)


async def takes(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.mailbox("box").poll("look")


async def tells(rank: Rank) -> None:
    if rank.rank:
        rank.send(0, "box", "hello", "tell")
    else:
        await rank.mailbox("box").get("hear")


async def hears_in_time(rank: Rank) -> None:
    if rank.rank:
        rank.send(0, "box", "hello", "tell")
    else:
        await rank.mailbox("box").get("hear", timeout_ns=10)


async def starts(rank: Rank) -> None:
    async def beside(inner: Rank) -> None:
        inner.stream("main").launch("touch", touch)

    await rank.start("t", beside).join("join")


async def replays(rank: Rank) -> None:
    main, graph = rank.stream("main"), rank.graph("g")
    x = main.alloc(1, "int32", "x")
    async with graph.capture(main):
        main.launch("set", set_to, writes=[x], args=(1,))
    graph.replay(main, "go")


async def reads_once_written(rank: Rank) -> None:
    main, graph = rank.stream("main"), rank.graph("g")
    x, y = main.alloc(1, "int32", "x"), main.alloc(1, "int32", "y")
    main.launch("set", set_to, writes=[x], args=(1,))
    async with graph.capture(main):
        main.launch("copy", copy, reads=[x], writes=[y])
    graph.replay(main, "go")


async def opens(rank: Rank) -> None:
    await rank.open_store(5, "open")


async def opens_and_closes(rank: Rank) -> None:
    store = await rank.open_store(5, "open")
    if store is not None:
        store.close("close")


async def raises(rank: Rank) -> None:
    raise ValueError("oh")


async def gives_up(rank: Rank) -> None:
    await rank.mailbox("box").get("hear", timeout_ns=10)
    rank.host("cpu").abort(site="give_up")


async def gives_up_on_the_device(rank: Rank) -> None:
    rank.device("dp").abort(site="give_up")


class Threaded(Scripted):
    threaded = True


class Aborting(Scripted):
    aborts = True


class ByFlags(Threaded):
    ordered_by_flags = True


class Served(Scripted):
    async def serve(self, rank: Rank, prepared: Any) -> None:
        pass


class Chooses(Scripted):
    def assumes(self, did: Collection[tuple[Any, ...]], prepared: Any) -> Sequence[str]:
        return (CHOSEN,)


class Waits(Scripted):
    def assumes(self, did: Collection[tuple[Any, ...]], prepared: Any) -> Sequence[str]:
        return (NO_EARLY_READ,)


class RunsEagerly(Scripted):
    def assumes(self, did: Collection[tuple[Any, ...]], prepared: Any) -> Sequence[str]:
        return (NEITHER,)


# ---- worlds

ALL_DIE = (Kill(0, partial=True, loses_mail=True), Kill(1, partial=True, loses_mail=True))
ON_HOSTS = world_of(2, hosts=["cpu"])
ON_DEVICES = world_of(2, devices=["dp"])
ASKED = replace(ON_DEVICES, residency=4, lazy=True, launch_queue=1024, alloc_synchronises=True)
ALONE = World(1, ())
PAIR = World(2, ())
FROM_OUTSIDE = (Message(0, "box", 1, 1), Message(0, "box", 2, 1))
LATE = replace(ALONE, delays=(Delay(0, At(), 10),))


class Case(NamedTuple):
    """A world to explore, and its program."""

    world: World
    script: Script
    kind: type[Scripted] = Scripted
    scenario: dict[str, Any] = {}  # noqa: RUF012 - no test changes it


def seen(case: Case) -> Explored:
    """Returns the complete exploration of a case. The death of a rank is no failure."""
    if case.scenario:
        return explore_subject(Subject.of(scenario_from(case.scenario)), "dpor")
    off = ("DEATH", "HANG:COLLECTIVE:DEAD_RANK") if case.world.kills else ()
    return explore_subject(Subject(case.world, case.kind(case.script), switched_off=off), "dpor")


SUMS, BOTH, KERNELS = Case(ON_DEVICES, sums), Case(ON_DEVICES, sums_and_sends), Case(ALONE, kernels)
FROM_A_SCENARIO = Case(
    World(2, ()),
    agrees,
    Scripted,
    {"name": "alone", "protocol": {"name": "alone_decides", "params": {"way": "constant"}}},
)
BARE, GRAPH, LATE_GRAPH = Case(ALONE, bare_kernel), Case(ALONE, replays), Case(LATE, replays)
AGREES, TELLS, THREAD = Case(ON_HOSTS, agrees), Case(PAIR, tells), Case(ALONE, starts, Threaded)
ROUNDS = Case(world_of(3, hosts=["cpu"]), rounds)
AVERAGES = Case(ROUNDS.world, averages)
KILLED = Case(replace(ON_HOSTS, kills=(Kill(1),)), posts_and_agrees)
ALL_KILLED = Case(replace(ON_HOSTS, kills=ALL_DIE), posts_and_agrees)
MAY_RAISE = ALL_KILLED._replace(world=replace(ALL_KILLED.world, faults=(Fault("raise", 1, At("never", 0)),)))
QUEUE = replace(ALONE, launch_queue=8)
ALLOCATES = Case(replace(ALONE, alloc_synchronises=True), kernels)
OPENS = Case(ALONE, opens)
TAKEN = Case(replace(ALONE, strangers=(Stranger(5),)), opens)
HEARS = Case(PAIR, hears_in_time)
HEARS_EARLY = Case(replace(PAIR, early_timeouts=1), hears_in_time)
GIVES_UP = Case(ON_HOSTS, gives_up, Aborting)
GIVES_UP_DEVICE = Case(ON_DEVICES, gives_up_on_the_device, Aborting)
CLIENTS = Case(replace(PAIR, messages=FROM_OUTSIDE), takes)
DEAD = "host ops of a dead rank complete, and device ops that need all members complete for all or none"

EXAMPLES: list[tuple[str, str, Case, Case]] = [
    ("kill a rank at any time", "no rank dies", AGREES, KILLED),
    ("kill more ranks", "only the named ranks die", KILLED, ALL_KILLED),
    ("serve some peers", DEAD, KILLED, ALL_KILLED),
    ("lose messages that", "messages that a dead rank posted arrive", KILLED, ALL_KILLED),
    ("bring a dead rank", "no dead rank comes back", KILLED, AGREES),
    ("kill a process", "no rank dies", AGREES, KILLED),
    ("kill a process", "only the named ranks die", KILLED, ALL_KILLED),
    ("raise in a process", "no rank dies", AGREES, KILLED),
    ("raise in a process", "no call raises or hangs by chance", ALL_KILLED, MAY_RAISE),
    ("raise an exception in peers", "the death of a peer raises no exception", KILLED, AGREES),
    ("hold an abort up", ABORT_WAITS, GIVES_UP_DEVICE, GIVES_UP),
    ("break off a collective", OTHERWISE, KILLED, AGREES),
    ("run each rank in", SHARE_NOTHING, AGREES, FROM_A_SCENARIO),
    ("keep collectives", "unlimited residency", SUMS, Case(ASKED, sums)),
    ("add or multiply floating-point", "the order of floating-point sums does not matter", ROUNDS, AGREES),
    ("multiply each term", "the order of floating-point sums does not matter", AVERAGES, AGREES),
    ("make a communicator lazily", "communicators are connected", SUMS, Case(ASKED, sums)),
    ("open the connection", "communicators are connected", BOTH, AGREES),
    ("give torch's", "transfers and collectives of a communicator share its order", BOTH, SUMS),
    ("write the result of an asynchronous", NO_EARLY_READ, AGREES._replace(kind=Waits), AGREES),
    ("use NVLink", OTHERWISE, SUMS, AGREES),
    ("time out (", OTHERWISE, AGREES, TELLS),
    ("let the kernel of a transfer", "unlimited residency", BOTH, AGREES),
    (
        "hold a host up in a send",
        "a host continues after a late send",
        Case(replace(PAIR, delays=LATE.delays), tells),
        TELLS,
    ),
    ("let messages come", MAIL, TELLS, AGREES),
    ("bring messages of several", MAIL, CLIENTS, TELLS),
    ("deliver messages of one", MAIL, TELLS, AGREES),
    ("hold a host up in a launch", "unlimited launch queue", KERNELS, Case(QUEUE, kernels)),
    ("hold a host up in an alloc", "no allocation waits", KERNELS, ALLOCATES),
    ("hold a host up in an alloc", "allocations wait where this layout takes new memory", ALLOCATES, KERNELS),
    ("run out of memory", OTHERWISE, KERNELS, BARE),
    ("synchronise at a free", OTHERWISE, BARE, AGREES),
    ("let streams share", OTHERWISE, Case(ALONE, two_streams), KERNELS),
    ("reorder a device's", OTHERWISE, SUMS, KERNELS),
    ("take any order", "flags order all uses of objects that host threads share", Case(ALONE, starts, ByFlags), THREAD),
    ("switch host threads", "Python between two calls is one step", THREAD, KERNELS),
    ("give each host", "the host threads of a rank run in one Python thread", THREAD, KERNELS),
    ("run a kernel's code in torch", OTHERWISE, BARE, AGREES),
    ("fuse, leave out", OTHERWISE, GRAPH, AGREES),
    (
        "run calls of one communicator out of order",
        "replays of two graphs keep the order of their communicator",
        Case(TWO_GRAPHS, two_graphs()),
        Case(TWO_GRAPHS, two_graphs(waits)),
    ),
    ("let a replay read", "replays may read old contents", Case(ALONE, reads_once_written), GRAPH),
    ("take a replay apart", "a host issues a replay as one op", LATE_GRAPH, GRAPH),
    ("hold a host up in a replay", "unlimited launch queue", GRAPH, Case(QUEUE, replays)),
    ("instantiate or upload", OTHERWISE, GRAPH, KERNELS),
    ("give a port to", "no other program listens", OPENS, TAKEN),
    ("give a port to", "only the named ports are taken", TAKEN, OPENS),
    ("keep a port", "a closed port is free at once", Case(ALONE, opens_and_closes), OPENS),
    ("replay the graph that ranks choose", CHOSEN, Case(ALONE, kernels, Chooses), KERNELS),
    ("replay the graph that ranks choose", NEITHER, Case(ALONE, kernels, RunsEagerly), KERNELS),
    ("let a time-out pass while", "no time-out passes early", HEARS, HEARS_EARLY),
    ("let a time-out pass while", "few time-outs of a run pass early", HEARS_EARLY, HEARS),
    ("split a network", "no network splits", Case(replace(PAIR, nodes=(0, 1)), tells), TELLS),
    (
        "end a child",
        "no service ends because a rank ends",
        Case(replace(ALONE, services=("desk",)), kernels, Served),
        KERNELS,
    ),
]


OUTSIDE: list[tuple[str, str, Callable[[], Any]]] = [
    ("run on clocks", "no clock decides what a rank does", lambda: time.monotonic()),
    ("let a rank sleep", "no other sleep outlasts a time-out", lambda: time.sleep(0)),
    ("give each process other", "no random number of the system decides what a rank does", lambda: os.urandom(1)),
    ("run each rank on a machine", "no other process changes the files of a rank", lambda: os.path.exists("x")),
    ("end a child process", "no child process decides what a rank does", lambda: subprocess.run(["true"], check=True)),
    ("run a thread of Python", "no order of Python's threads decides what a rank does", starts_a_thread),
    ("bring or break", "no other connection decides what a rank does", lambda: socket.socket().close()),
    ("keep further settings", "no setting of the process reaches another rank", lambda: gc.freeze()),
]
"""What a script touches outside of the contract."""

EXAMPLES += [(start, words, outside(touches), BARE) for start, words, touches in OUTSIDE]


def found(start: str, words: str) -> tuple[Assumption, Statement]:
    """Returns the only row that begins with `start`, and its sentence with these words."""
    [(row, says)] = [
        (row, one) for row in rows() for one in row.says if row.may.startswith(start) and one.words == words
    ]
    return row, says


def facts(case: Case) -> Facts:
    explored = seen(case)
    assert explored.verdict == "proven", explored.summary()
    of_runs = Facts.of(case.world, explored.subject.program, explored.subject.prepared, explored.exploration.did)
    return of_runs._replace(not_alone=explored.not_alone)


@pytest.mark.parametrize(("start", "words", "prints", "silent"), EXAMPLES, ids=lambda it: it if type(it) is str else "")
def test_a_row_is_printed_exactly_for_worlds_that_do_what_it_names(
    start: str, words: str, prints: Case, silent: Case
) -> None:
    _, says = found(start, words)
    printed = says.of(facts(prints))
    assert printed
    assert printed in seen(prints).assumes
    assert not says.of(facts(silent))


def test_the_rows_behind_no_other_effect_are_named() -> None:
    """The last line of the assumptions covers several rows, which the JSON output lists one by one."""
    bare, agrees = seen(BARE), seen(AGREES)
    assert any(row.startswith("synchronise at a free") for row in bare.beside)
    assert not any(row.startswith("synchronise at a free") for row in agrees.beside)
    for one in (bare, agrees):
        assert (OTHERWISE in one.assumes) == bool(one.beside)


def test_every_row_that_a_proof_assumes_has_its_worlds() -> None:
    shown = [found(start, words) for start, words, *_ in EXAMPLES]
    assert [one for one in shown if shown.count(one) > 1] == []
    assert [row.may for row in rows() for one in row.says if (row, one) not in shown] == []


def test_a_row_that_is_not_always_so_has_words_or_a_reason() -> None:
    """Each row is always exact, or has words that a proof prints, or has a reason why it needs none."""
    for row in rows():
        always = row.does.startswith("always") and not row.says
        assert (always, bool(row.says), bool(row.nothing)).count(True) == 1, row.may


def test_a_verdict_ends_in_what_it_assumes() -> None:
    summary = seen(SUMS).summary()
    assert summary.startswith("proven: holds in every schedule of this world; ")
    assert summary.endswith("; assumes: " + "; ".join(DEVICE))


def test_a_world_that_does_little_assumes_little() -> None:
    assert seen(AGREES).assumes == ("no rank dies", NO_SCENARIO, OTHERWISE)


def test_a_world_that_was_asked_for_everything_assumes_the_layout_alone() -> None:
    world = replace(ASKED, kills=ALL_DIE, faults=MAY_RAISE.world.faults)
    assert assumed(Facts(world, {("launch", "main"), ("alloc",)})) == (
        "no dead rank comes back",
        "allocations wait where this layout takes new memory",
        OTHERWISE,
    )


def test_the_abort_of_a_device_communicator_is_named() -> None:
    assert f"{ABORT_WAITS}: give_up" in seen(GIVES_UP_DEVICE).assumes


def test_ranks_that_die_are_named() -> None:
    for kills, said in (((Kill(1),), "only rank 1 dies"), ((Kill(2), Kill(1)), "only ranks 1, 2 die")):
        assert said in assumed(Facts(World(3, (), kills=kills), set()))


@pytest.mark.parametrize("strategy", ["dpor", "fifo"])
@pytest.mark.parametrize("how", ["message", "own message", "store", "join"])
def test_a_verdict_with_a_time_out_says_that_it_assumes_a_long_one(how: str, strategy: str) -> None:
    """A proof does not cover a slow peer whose time-out passes too early, so the verdict says so. It does so even if no
    run waited until a time-out.
    """

    def waiting(timeout_ns: int | None) -> Script:
        async def waits(rank: Rank) -> None:
            if rank.rank:
                await rank.sleep(2_000_000, "slow")
                rank.send(0, "beat", 1, "beat")
            elif how in ("store", "join"):
                store = await rank.open_store(5, "open")
                assert store is not None
                store.set("k", 1, "set")
                if how == "store":
                    await store.get("k", "get", timeout_ns=timeout_ns)
                else:
                    await rank.join_store(0, 5, "join", timeout_ns=timeout_ns)
            else:
                if how == "own message":
                    rank.send(0, "beat", 1, "own")
                    await rank.sleep(1_000_000, "nap")
                assert await rank.mailbox("beat").get("wait", timeout_ns=timeout_ns) is not None

        return waits

    said = "no time-out passes early"
    unlimited = explored(World(2, ()), waiting(None), strategy=strategy).assumes
    assert said not in unlimited
    limited = explored(World(2, ()), waiting(10_000_000), strategy=strategy).assumes
    assert [one for one in limited if one != said] == [*unlimited]
    assert said in limited


def test_a_sample_assumes_as_much_as_a_proof() -> None:
    sample = explored(ON_DEVICES, sums, strategy="random", schedules=2)
    assert sample.verdict == "sampled"
    assert sample.assumes == seen(SUMS).assumes


def test_several_processes_assume_what_one_does() -> None:
    subject = Subject(PAIR, Scripted(tells))
    [one] = explore_all([subject], "random", schedules=40)
    assert one.assumes == seen(TELLS).assumes


def test_a_violation_assumes_nothing() -> None:
    violated = explored(World(2, ()), raises)
    assert violated.assumes == ()
    assert "assumes" not in violated.summary()
