"""Tests plain calls that block the host if the world says so: a launch into a full launch queue, and an allocation that
synchronizes.

Such a call returns when the device has made enough progress. Only then does the program continue. If the device waits
for a peer that waits for this host, the call never returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dpsim.checks.finding import Finding
from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.world import At, Fault, Kill, World
from tests.programs import Script, explored, judged, run, set_to, world_of
from tests.worlds.brute import schedules
from tests.worlds.explored import missed
from tests.worlds.test_machine_gaps import case_of

Put = Callable[[Rank, Stream, Buffer], Any]
LONG = 50_000


def kernel(rank: Rank, stream: Stream, buffer: Buffer) -> None:
    stream.launch("put", set_to, writes=[buffer], args=(1,))


def read(rank: Rank, stream: Stream, buffer: Buffer) -> object:
    return buffer.read("put")


def collective(rank: Rank, stream: Stream, buffer: Buffer) -> None:
    rank.device("own").all_reduce(buffer, stream, site="put")


def group(rank: Rank, stream: Stream, buffer: Buffer) -> None:
    """A coalesced group takes one slot of the launch queue, however many transfers it contains."""
    device = rank.device("p")
    with device.coalesced(stream):
        for _ in range(2):
            device.send(buffer, 1, stream, site="put")


def launches_then_sends(put: Put, times: int, stream: str = "main") -> Script:
    """Rank 0 joins a collective on its main stream, puts `times` more ops on a stream, and then sends to rank 1. Rank 1
    joins the collective when it has the message.
    """

    async def script(rank: Rank) -> None:
        main, device = rank.stream("main"), rank.device("d")
        x, y = (main.alloc(4, "int32", site) for site in "xy")
        main.launch("fill", set_to, writes=[x], args=(1,))
        main.launch("fill.y", set_to, writes=[y], args=(1,))
        on = rank.stream(stream)
        on.wait_stream(main)
        if rank.rank:
            await rank.mailbox("go").get("go")
        device.all_reduce(x, main, site="meet")
        if not rank.rank:
            works = [put(rank, on, y) for _ in range(times)]
            rank.send(1, "go", True, "tell")
            for work in works:
                if work is not None:
                    await work
        elif put is group:
            for _ in range(2 * times):
                rank.device("p").recv(y, 0, main)

    return script


def limited_world(**limits: Any) -> World:
    world = world_of(2, devices=["d", "p"], **limits)
    return World(2, (*world.communicators, *world_of(1, devices=["own"]).communicators), **limits)


def classes(findings: Sequence[Finding]) -> list[str]:
    return [finding.klass for finding in findings]


# ---- a full launch queue


@pytest.mark.parametrize("put", [kernel, read, collective, group])
@pytest.mark.parametrize(("room", "hangs"), [(2, True), (3, True), (4, False), (None, False)])
def test_a_full_queue_holds_the_host_up(put: Put, room: int | None, hangs: bool) -> None:
    """The collective and three ops after it take four slots of the launch queue. With fewer slots the host hangs."""
    world, script = limited_world(launch_queue=room), launches_then_sends(put, 3)
    expected = ["HANG:HOST:LAUNCH_QUEUE"] if hangs else []
    assert classes(judged(world, script)) == expected
    found = explored(world, script)
    assert (found.verdict, classes([*found.findings])) == ("violated" if hangs else "proven", expected)


def test_a_finding_names_the_launch_that_blocks_and_the_journal_has_no_later_one() -> None:
    world, script = limited_world(launch_queue=2), launches_then_sends(kernel, 3)
    done = run(world, script)
    assert (done.ends, done.standing) == (["blocked", "blocked"], (0,))
    assert [raw[SITE] for raw in done.journals[0]][-3:] == ["meet", "put", "put"], (
        "the host blocks in its second put and never makes the third"
    )
    assert not [raw for raw in done.journals[0] if raw[KIND] == "post"]
    (found,) = judged(world, script)
    assert str(found.culprit).startswith("rank 0, step 0, put at ")
    assert (
        "rank 0 is blocked in put (kernel on stream main, step 0): 2 ops before it on that stream have not ended"
        in (found.message)
    )
    assert any("rank 1 waits for a message in go" in line for line in found.details)


def test_each_stream_has_its_own_launch_queue() -> None:
    world = limited_world(launch_queue=2)
    assert not judged(world, launches_then_sends(kernel, 5, "side"))
    assert explored(world, launches_then_sends(kernel, 5, "side")).verdict == "proven"


async def sleeps_behind_two_kernels(rank: Rank) -> None:
    main = rank.stream("main")
    for site in "ab":
        main.launch(site, set_to, writes=[main.alloc(1, "int32", site)], args=(1,), cost=LONG)
    await rank.sleep(3 * LONG, "sleep")


def test_a_host_that_is_held_up_is_late() -> None:
    """With one slot, the second launch returns when the first kernel has ended, so the run takes longer."""
    free, full = (run(world_of(1, launch_queue=room), sleeps_behind_two_kernels) for room in (2, 1))
    assert (free.elapsed_ns, full.elapsed_ns) == (3 * LONG, 4 * LONG)


def launches_on_and_asks(behind: int = 2, cost: int = LONG) -> Script:
    """Rank 0 records an event, launches `behind` kernels after it, and asserts that the event has passed."""

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(1, "int32", "x")
        main.launch("before", set_to, writes=[x], args=(1,), cost=cost)
        passed = main.record()
        for number in range(behind):
            main.launch("behind", set_to, writes=[x], args=(number,), cost=cost)
        assert await passed.query("ask"), "a launch returned before a kernel behind the event had ended"

    return script


@pytest.mark.parametrize(("room", "holds"), [(1, True), (2, False)])
def test_a_host_that_passed_a_full_queue_has_observed_the_end_of_a_kernel(room: int, holds: bool) -> None:
    world = world_of(1, launch_queue=room)
    assert explored(world, launches_on_and_asks()).verdict == ("proven" if holds else "violated")


@pytest.mark.parametrize(("room", "holds"), [(1, True), (2, False)])
def test_with_time_an_event_has_passed_with_the_work_before_it(room: int, holds: bool) -> None:
    """With one slot, the launch after the event returns when the kernel before the event has ended. In the timed run a
    query of the event then returns True. In some schedule it returns False.
    """
    world = world_of(1, launch_queue=room)
    assert (not judged(world, launches_on_and_asks(1))) == holds
    assert explored(world, launches_on_and_asks(1)).verdict == "violated"


def looks_between_launches(second: bool) -> Script:
    """Rank 1 polls between its launches for what rank 0 sends. With `second`, both do this twice and then meet in a
    barrier.
    """

    async def script(rank: Rank) -> None:
        main, box = rank.stream("main"), rank.mailbox("box")
        x = main.alloc(1, "int32", "x")
        main.launch("fill", set_to, writes=[x], args=(1,))
        rank.device("d").all_reduce(x, main)
        for number in range(1 + second):
            main.launch("more", set_to, writes=[x], args=(1,))
            if rank.rank:
                await box.poll("look")
            else:
                rank.send(1, "box", number, "tell")
        if second:
            await rank.host("h").barrier()

    return script


@pytest.mark.parametrize("kills", [(), (Kill(0),)])
@pytest.mark.parametrize("room", [1, 2])
def test_exploring_misses_no_outcome_with_a_launch_queue(room: int, kills: tuple[Kill, ...]) -> None:
    """DPOR finds the same outcomes as brute force, with a full launch queue and with a kill."""
    world = world_of(2, ["h"], ["d"], launch_queue=room, kills=kills)
    assert missed(case_of(world, looks_between_launches(second=not kills))) == (0, 0, 0)


@pytest.mark.parametrize(("room", "hangs"), [(3, True), (4, False)])
def test_brute_force_sees_the_hang_that_exploring_finds(room: int, hangs: bool) -> None:
    runs = [run for _, run in schedules(case_of(limited_world(launch_queue=room), launches_then_sends(kernel, 3)))]
    assert {run.finished for run in runs} == {not hangs}


# ---- an allocation that synchronizes


def allocates_and_sends(size: int) -> Script:
    """Rank 0 allocates after a collective and then sends to rank 1. Rank 1 joins the collective when it has the
    message.
    """

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(4, "int32", "x")
        main.launch("fill", set_to, writes=[x], args=(1,))
        if rank.rank:
            await rank.mailbox("go").get("go")
        rank.device("d").all_reduce(x, main, site="meet")
        if not rank.rank:
            main.alloc(size, "int32", "more")
            rank.send(1, "go", True, "tell")

    return script


FITS, NEW = 4, 1 << 20


@pytest.mark.parametrize(("synchronises", "size"), [(True, NEW), (True, FITS), (False, NEW), (False, FITS)])
def test_an_allocation_that_needs_new_memory_may_wait_for_the_device(synchronises: bool, size: int) -> None:
    world, script = world_of(2, devices=["d"], alloc_synchronises=synchronises), allocates_and_sends(size)
    hangs = synchronises and size == NEW
    expected = ["HANG:HOST:ALLOC"] if hangs else []
    assert classes(judged(world, script)) == expected
    found = explored(world, script)
    assert (found.verdict, classes([*found.findings])) == ("violated" if hangs else "proven", expected)


def test_a_finding_names_the_allocation_that_blocks_the_host() -> None:
    world = world_of(2, devices=["d"], alloc_synchronises=True)
    (found,) = judged(world, allocates_and_sends(NEW))
    assert str(found.culprit).startswith("rank 0, step 0, more at ")
    assert "it needs new memory" in found.message
    assert run(world, allocates_and_sends(NEW)).journals[0][-1][KIND] == "alloc"


def test_an_allocation_waits_for_all_streams() -> None:
    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        x = main.alloc(1, "int32", "x")
        side.wait_stream(main)
        side.launch("a", set_to, writes=[x], args=(1,), cost=LONG)
        main.alloc(NEW, "int32", "big")
        await rank.sleep(LONG, "sleep")

    free, held = (run(world_of(1, alloc_synchronises=so), script) for so in (False, True))
    assert (free.elapsed_ns, held.elapsed_ns) == (LONG, 2 * LONG)


# ---- ends


def fails(target: Any) -> None:
    raise ValueError("a kernel that fails")


def launches_then(end: str) -> Script:
    """Rank 0 makes a launch that finds the queue full, and then ends as `end` says. If `end` contains "comes", its peer
    joins the collective.
    """

    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(1, "int32", "x")
        main.launch("fill", set_to, writes=[x], args=(1,))
        if rank.rank == 0 or "comes" in end:
            rank.device("d").all_reduce(x, main, site="meet")
        if rank.rank:
            return
        main.launch("more", fails if "kernel" in end else set_to, writes=[x], args=() if "kernel" in end else (1,))
        for site in ("last", "behind.it") if "kernel" in end else ("last",):
            main.launch(site, set_to, writes=[x], args=(1,))
        if "raises" in end:
            raise RuntimeError("beyond")
        rank.send(1, "box", 1, "beyond")

    return script


@pytest.mark.parametrize("choose", [None, lambda what, options: 0])
@pytest.mark.parametrize(
    ("end", "ends", "last"),
    [
        ("raises", ["blocked", "finished"], "more"),
        ("raises, and the peer comes", ["raised", "finished"], "RuntimeError"),
        ("returns", ["blocked", "finished"], "more"),
        ("returns, and the peer comes", ["finished", "finished"], "end"),
        ("a kernel fails, and the peer comes", ["raised", "finished"], "KernelError"),
    ],
)
def test_a_program_continues_after_a_launch_only_if_the_launch_returns(
    end: str, ends: list[str], last: str, choose: Any
) -> None:
    done = run(world_of(2, devices=["d"], launch_queue=1), launches_then(end), choose=choose)
    assert done.ends == ends
    assert done.journals[0][-1][SITE] == last
    beyond = [raw for raw in done.journals[0] if raw[SITE] == "beyond"]
    assert bool(beyond) == (end == "returns, and the peer comes"), "a launch behind a failed kernel does not return"


@pytest.mark.parametrize("comes", [True, False])
def test_a_rank_dies_no_earlier_than_it_reaches_the_launch(comes: bool) -> None:
    world = world_of(2, devices=["d"], launch_queue=1, faults=(Fault("die", 0, At("beyond", 0)),))
    done = run(world, launches_then("returns, and the peer comes" if comes else "returns"))
    assert done.ends == ["died" if comes else "blocked", "finished"]


def test_a_rank_that_is_killed_in_a_blocked_launch_did_nothing_after_it() -> None:
    done = run(world_of(2, devices=["d"], launch_queue=1, kills=(Kill(0, 10**9),)), launches_then("returns"))
    assert done.ends == ["died", "finished"]
    assert [raw[SITE] for raw in done.journals[0] if raw[KIND] != "injected"][-1] == "more"


def test_a_host_collective_behind_a_blocked_launch_is_not_joined() -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(1, "int32", "x")
        main.launch("fill", set_to, writes=[x], args=(1,))
        if rank.rank:
            await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")
        rank.device("d").all_reduce(x, main, site="meet")
        if not rank.rank:
            main.launch("more", set_to, writes=[x], args=(1,))
            await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")

    for room, verdict in ((1, "violated"), (2, "proven")):
        world = world_of(2, ["h"], ["d"], launch_queue=room)
        found = explored(world, script)
        assert (found.verdict, classes(judged(world, script))) == (
            verdict,
            ["HANG:HOST:LAUNCH_QUEUE"] * (verdict == "violated"),
        )
