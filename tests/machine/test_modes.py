"""The simulated machine beyond one stream: events, reused memory, transfers, mailboxes, kills, residency, two modes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpsim.checks.judge import judge
from dpsim.interface import Rank
from dpsim.registry import Program
from dpsim.sim.allocator import CachingAllocator
from dpsim.sim.backend import SimBackend
from dpsim.world import CommunicatorSpec, Kill, Run, World


class Scripted(Program):
    def __init__(self, script: Any) -> None:
        self.script = script

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        await self.script(rank)


def told(ranks: int = 2, groups: Sequence[str] = ("d", "e"), **more: Any) -> World:
    everyone = tuple(range(ranks))
    specs = [CommunicatorSpec(name, name, "device", everyone) for name in groups]
    return World(ranks, (*specs, CommunicatorSpec("h", "h", "host", everyone)), **more)


def run(script: Any, world: World | None = None, **options: Any) -> Run:
    return SimBackend(**options).run_program(world or told(), Scripted(script), None)


def classes(script: Any, world: World | None = None, **options: Any) -> list[str]:
    world = world or told()
    return [finding.klass for finding in judge(world, run(script, world, **options))]


def first(label: str, options: Sequence[str]) -> int:
    return 0


def set_to(buffer: Any, value: int) -> None:
    buffer[:] = value


def copy(source: Any, target: Any) -> None:
    target[:] = source


def side_stream(wait: bool, keep: bool) -> Any:
    """A copy on a side stream of memory that is then freed and taken again on the main stream."""

    async def script(rank: Rank) -> None:
        main, side = rank.stream("main"), rank.stream("side")
        old, result = main.alloc(4, "int32", "old"), side.alloc(4, "int32", "result")
        main.launch("write", set_to, writes=[old], args=(7,), cost=100)
        if wait:
            side.wait_stream(main)
        side.launch("copy", copy, reads=[old], writes=[result], cost=9_000)
        if keep:
            old.record_stream(side)
        old.free()
        new = main.alloc(4, "int32", "new")
        main.launch("overwrite", set_to, writes=[new], args=(9,), cost=100)
        rank.decide("copied", int((await result.read("read")).sum()), "h")

    return script


@pytest.mark.parametrize("choose", [None, first])
def test_waiting_and_record_stream_make_a_side_stream_safe(choose: Any) -> None:
    assert classes(side_stream(True, True), choose=choose) == []


@pytest.mark.parametrize("choose", [None, first])
def test_without_a_wait_it_races(choose: Any) -> None:
    assert "RACE:BUFFER" in classes(side_stream(False, True), choose=choose)


@pytest.mark.parametrize("choose", [None, first])
def test_without_record_stream_memory_is_reused_in_flight(choose: Any) -> None:
    assert classes(side_stream(True, False), choose=choose)[0] == "RACE:REUSED_IN_FLIGHT"


def test_memory_that_is_reused_too_early_gives_a_wrong_number() -> None:
    def copied(keep: bool) -> set[Any]:
        journals = run(side_stream(True, keep)).journals
        return {raw[6] for journal in journals for raw in journal if raw[0] == "decision"}

    assert copied(True) == {28}
    assert copied(False) == {36}, "the copy comes after the overwrite, as it would on a device"


async def opposite_order(rank: Rank) -> None:
    """Two collectives on two streams, issued in opposite order by the two ranks."""
    kinds = ("d", "e") if rank.rank == 0 else ("e", "d")
    for kind in kinds:
        stream = rank.stream(kind)
        buffer = stream.alloc(1, "int32", kind)
        stream.launch("fill", set_to, writes=[buffer], args=(1,))
        rank.device(kind).all_reduce(buffer, stream)


def test_with_one_slot_two_communicators_block_each_other() -> None:
    assert run(opposite_order, told()).finished
    assert run(opposite_order, told(residency=2)).finished
    assert run(opposite_order, told(residency=1)).ends == ["blocked", "blocked"]


async def both_send_first(rank: Rank) -> None:
    main, group, peer = rank.stream("main"), rank.device("d"), 1 - rank.rank
    out, came = main.alloc(40_000, "int32", "out"), main.alloc(40_000, "int32", "came")
    main.launch("fill", set_to, writes=[out], args=(rank.rank,))
    group.send(out, peer, main)
    group.recv(came, peer, main)
    assert (await came.read("read")).tolist() == [peer] * 40_000


async def both_send_coalesced(rank: Rank) -> None:
    main, group, peer = rank.stream("main"), rank.device("d"), 1 - rank.rank
    out, came = main.alloc(40_000, "int32", "out"), main.alloc(40_000, "int32", "came")
    main.launch("fill", set_to, writes=[out], args=(rank.rank,))
    with group.coalesced(main):
        group.send(out, peer, main)
        group.recv(came, peer, main)
    assert (await came.read("read")).tolist() == [peer] * 40_000


def test_two_ranks_that_both_send_first_need_a_group() -> None:
    assert run(both_send_coalesced).finished
    assert run(both_send_first).ends == ["blocked", "blocked"], "too large to be sent eagerly"
    assert run(both_send_first, choose=lambda label, options: 0).finished, "eager"
    assert not run(both_send_first, choose=lambda label, options: len(options) - 1).finished, "rendezvous"


async def asks_and_answers(rank: Rank) -> None:
    if rank.rank == 0:
        rank.send(1, "in", ("ask", 3), "ask")
        assert await rank.mailbox("in").get("answer") == 9
    else:
        _, number = await rank.mailbox("in").get("question")  # type: ignore[misc,str-unpack]
        assert await rank.mailbox("in").poll("poll") is None
        rank.send(0, "in", number * number, "answer")  # type: ignore[operator]
        await rank.mailbox("in").get("rest", idle=True)


@pytest.mark.parametrize("choose", [None, first])
def test_mailboxes(choose: Any) -> None:
    assert run(asks_and_answers, choose=choose).finished


async def waits_for_mail(rank: Rank) -> None:
    await rank.mailbox("in").get("question")


def test_a_get_for_ever_is_a_hang() -> None:
    assert set(classes(waits_for_mail)) == {"HANG:MAILBOX:NO_MESSAGE"}


async def rounds(rank: Rank) -> None:
    for step in range(4):
        rank.step = step
        await rank.host("h").all_reduce(np.ones(1, np.int32), site="round")


def test_a_killed_rank_leaves_its_peers_waiting() -> None:
    world = told(kills=(Kill(1, 300_000),))
    done = run(rounds, world)
    assert done.ends == ["blocked", "died"]
    assert judge(world, done)[0].klass == "HANG:COLLECTIVE:DEAD_RANK"


@pytest.mark.runs_once
def test_untimed_a_kill_can_come_anywhere() -> None:
    world, ends = told(kills=(Kill(1, 0),)), []
    for when in range(40):
        left = [when]

        def choose(label: str, options: Sequence[str], left: list[int] = left) -> int:
            kill = next((i for i, option in enumerate(options) if option.startswith("kill")), None)
            left[0] -= 1
            if kill is not None and left[0] < 0:
                return kill
            return next((i for i in range(len(options)) if i != kill), 0)

        ends.append(tuple(run(rounds, world, choose=choose).ends))
    assert ("blocked", "died") in ends
    assert ("finished", "finished") in ends


def random_program(seed: int) -> Any:
    """Kernels on three streams with enough events between them, collectives, frees and reads."""

    async def script(rank: Rank) -> None:
        rng = random.Random(seed)  # the same on all ranks
        streams = [rank.stream(name) for name in ("main", "side", "third")]
        live = []
        for number in range(24):
            what = rng.choice(["alloc", "alloc", "step", "reduce", "free", "read"])
            stream = rng.choice(streams)
            if what == "alloc" or not live:
                buffer = stream.alloc(rng.randint(1, 900), "int32", "buffer")
                stream.launch("fill", set_to, writes=[buffer], args=(number,), cost=rng.randint(1, 9_000))
                live.append(buffer)
                continue
            buffer = rng.choice(live)
            for other in streams:
                if other is not stream:
                    stream.wait_stream(other)
            buffer.record_stream(stream)
            if what == "step":
                stream.launch("step", set_to, writes=[buffer], args=(number,), cost=rng.randint(1, 9_000))
            elif what == "reduce":
                rank.device("d").all_reduce(buffer, stream, op=rng.choice(["sum", "max"]))
            elif what == "free":
                live.remove(buffer)
                buffer.free()
            else:
                await buffer.read("read", stream)

    return script


@pytest.mark.runs_once  # the chooser follows an order that is used up
@pytest.mark.parametrize("seed", range(40))
def test_what_a_timed_run_did_the_untimed_machine_can_do(seed: int) -> None:
    """The timed run's firing order, replayed untimed, gives equal journals: found timed, proven untimed."""
    script = random_program(seed)
    timed = SimBackend(keep_order=True)
    seen = timed.run_program(told(), Scripted(script), None)
    order = iter(timed.order)

    def replay(label: str, options: Sequence[str]) -> int:
        return options.index(next(order)) if label == "op" else 0

    again = run(script, choose=replay)
    assert seen.finished
    assert judge(told(), seen) == []

    def views(done: Run) -> list[list[Any]]:
        return [[raw[:-1] if raw[0] == "alloc" else raw for raw in journal] for journal in done.journals]

    assert views(again) == views(seen)
    assert next(order, None) is None


def test_blocks_of_an_allocator_never_overlap_and_are_reused() -> None:
    for seed in range(30):
        rng, allocator, live = random.Random(seed), CachingAllocator(expandable=seed % 2 == 0), []
        for _ in range(300):
            if live and rng.random() < 0.5:
                allocator.free(live.pop(rng.randrange(len(live))))
            else:
                live.append(allocator.alloc(rng.choice("ab"), rng.choice([1, 600, 5_000, 700_000, 3 << 20, 12 << 20])))
            places = sorted(block.place for block in live)
            assert all(a[0] < b[0] or a[2] <= b[1] for a, b in itertools.pairwise(places))
        for block in live:
            allocator.free(block)
        before = allocator.reserved
        allocator.alloc("a", 600)
        assert allocator.reserved == before
