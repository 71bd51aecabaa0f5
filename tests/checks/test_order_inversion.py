"""Tests device collectives that ranks issue in opposite order. The finding names, for each rank, the collective that
blocks and the one behind it. Healthy twins do not hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import CommunicatorSpec, World
from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made
from tests.judged import judge
from tests.programs import Script, run, set_to, world_of

INVERTED = "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS"


def only(findings: Sequence[Told]) -> Told:
    [found] = findings
    assert found.klass == INVERTED
    return found


# ---- on one stream, and on streams that wait for it


def in_order(orders: Sequence[str], streams: str = "main main") -> Made:
    """Each rank issues its collectives in its order, each group on its stream, and waits for its device."""
    made = Made(len(orders))
    on = dict(zip(("dp", "ep"), streams.split(), strict=True))
    for hand, order in zip(made.hands, orders, strict=True):
        for communicator in order.split():
            hand.collective(communicator, on[communicator])
        hand.begin_read(on[order.split()[-1]])
    return made


def test_two_ranks_in_opposite_order_are_not_blamed() -> None:
    found = only(in_order(["dp ep", "ep dp"]).findings("blocked", "blocked"))
    assert found.culprit is None
    assert found.message == (
        "device collectives of different groups come in opposite order: "
        "rank 0: dp #0 before ep #0; rank 1: ep #0 before dp #0"
    )
    assert found.details == (
        "rank 0 is blocked in dp.all_reduce[0] (dp #0, stream main, step 0, here.py:0) "
        "and would reach ep #0 after it, in which rank 1 waits",
        "rank 1 is blocked in ep.all_reduce[0] (ep #0, stream main, step 0, here.py:0) "
        "and would reach dp #0 after it, in which rank 0 waits",
    )


def test_a_run_that_stopped_with_all_in_order_is_still_not_explained() -> None:
    assert in_order(["dp ep", "dp ep"]).classes("blocked", "blocked") == ["HANG:UNDECIDED"]


def test_the_minority_is_the_culprit() -> None:
    found = only(in_order(["dp ep", "dp ep", "ep dp", "dp ep"]).findings(*["blocked"] * 4))
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.site, found.culprit.where) == (2, "ep.all_reduce", "here.py:0")
    assert "ranks 0, 1, 3: dp #0 before ep #0; rank 2: ep #0 before dp #0" in found.message


def test_the_first_inversion_counts_and_not_a_call_that_a_host_did_not_reach() -> None:
    """Rank 1 runs ahead into a host collective that rank 0 never reaches, because it waits for its device. The finding
    is the first inversion.
    """
    made = Made(2)
    for hand, order in zip(made.hands, (("dp", "ep"), ("ep", "dp")), strict=True):
        hand.collective("dp", "main")
        hand.step = 1
        for communicator in order:
            hand.collective(communicator, "main")
    made[0].begin_read("main")
    made[1].collective("cpu", None)
    found = only(made.findings("blocked", "blocked"))
    assert "rank 0: dp #1 before ep #0" in found.message
    assert found.position[0] == 1


def test_a_host_that_waits_for_its_device_has_not_issued_the_other_one_yet() -> None:
    made = Made(2)
    made[0].collective("dp", "main")
    for hand, communicator in zip(made.hands, ("ep", "ep"), strict=True):
        hand.collective(communicator, "main")
        hand.begin_read("main")
    ledger, found = made.findings("blocked", "blocked")
    assert ledger.culprit is None, "it may have left dp out or be about to make it"
    assert "rank 0: dp #0 before ep #0; rank 1: ep #0 before dp #0" in only([found]).message


@pytest.mark.parametrize("waits", [True, False])
def test_events_carry_the_order_of_one_stream_to_another(waits: bool) -> None:
    made = Made(2)
    for hand, (first, second) in zip(made.hands, (("dp", "ep"), ("ep", "dp")), strict=True):
        hand.collective(first, "main")
        if waits:
            hand.order("main", "third")
            hand.order("third", "side")
        hand.collective(second, "side")
    found = only(made.findings("blocked", "blocked"))
    assert ("may not run both at a time" in found.message) == (not waits), "proven only where events order them"


def test_three_ranks_in_a_ring_of_groups() -> None:
    groups = {"a": (0, 1), "b": (1, 2), "c": (0, 2)}
    for orders, hangs in (("ac ba cb", True), ("ac ab cb", False)):
        made = Made(3)
        specs = tuple(CommunicatorSpec(name, name, "device", ranks) for name, ranks in groups.items())
        made.world = World(3, specs)
        for hand, order in zip(made.hands, orders.split(), strict=True):
            for communicator in order:
                hand.collective(communicator, "main")
        if hangs:
            found = only(made.findings(*["blocked"] * 3))
            assert found.culprit is None
            assert "rank 0: a #0 before c #0; rank 1: b #0 before a #0; rank 2: c #0 before b #0" in found.message
        else:
            assert made.classes() == []
            assert made.classes(*["blocked"] * 3) == ["HANG:UNDECIDED"]


def test_a_rank_that_left_one_out_is_the_cause_and_the_inversion_is_where_it_shows() -> None:
    made = Made(3)
    for hand in made.hands:
        for hand.step in range(3):
            if (hand.rank, hand.step) != (1, 1):
                hand.collective("dp", "main")
            hand.collective("ep", "main")
    findings = made.findings(*["blocked"] * 3)
    assert [found.klass for found in findings[:2]] == ["HANG:COLLECTIVE:MISSING_RANK", INVERTED]
    assert findings[0].culprit is not None
    assert (findings[0].culprit.rank, findings[0].culprit.step) == (1, 1)


# ---- on two streams


def test_an_inversion_that_ranks_passed_before_is_not_the_cause() -> None:
    """A real backend does not report how many collectives a device can run at a time. The ranks passed an inversion of
    step 0, so the finding is that of step 2.
    """
    made = Made(2)
    for hand, order in zip(made.hands, (("dp", "ep"), ("ep", "dp")), strict=True):
        for hand.step in range(3):
            for communicator in order if hand.step != 1 else ("dp", "ep"):
                hand.collective(communicator, communicator)
            if hand.step < 2:
                hand.read("dp")
                hand.learned(hand.ask("synchronize", hand.mark("ep")), True)
    found = only(made.findings("blocked", "blocked"))
    assert "may not run both at a time: rank 0: dp #2 before ep #2; rank 1: ep #2 before dp #2" in found.message
    assert made.classes() == []


def test_an_inversion_is_no_proof_if_a_transfer_may_block_the_device() -> None:
    made = in_order(["dp ep", "ep dp"], "main side")
    made[0].transfer("send", 1, "third")
    made[1].transfer("recv", 0, "third")
    assert made.classes("blocked", "blocked") == ["HANG:UNDECIDED"]


# ---- on the simulation


def reduces_in(orders: Sequence[str], streams: str) -> Script:
    """Makes an all_reduce on each communicator in each of two steps. In the second step, each rank has its
    own order.
    """
    stream_of = dict(zip("de", streams.split(), strict=True))

    async def script(rank: Rank) -> None:
        for rank.step in range(2):
            buffers = []
            for kind in orders[rank.rank] if rank.step else "de":
                stream = rank.stream(stream_of[kind])
                buffers.append(stream.alloc(1, "int32", kind))
                stream.launch("fill", set_to, writes=buffers[-1:], args=(1,))
                rank.device(kind).all_reduce(buffers[-1], stream)
            for buffer in buffers:
                await buffer.read("read")

    return script


def _first(label: str, options: Sequence[str]) -> int:
    return 0


@pytest.mark.parametrize("choose", [None, _first])
@pytest.mark.parametrize(
    ("orders", "streams", "residency", "hangs"),
    [
        (["de", "ed"], "main main", None, True),
        (["de", "de"], "main main", None, False),
        (["de", "ed"], "main side", None, False),
        (["de", "ed"], "main side", 2, False),
        (["de", "ed"], "main side", 1, True),
        (["ed", "ed"], "main side", 1, False),
        (["de", "ed", "de"], "main main", None, True),
        (["de", "ed", "de"], "main side", 1, True),
    ],
)
def test_the_simulation_hangs_exactly_for_inverted_orders(
    choose: Any, orders: list[str], streams: str, residency: int | None, hangs: bool
) -> None:
    world = world_of(len(orders), devices="de", residency=residency)
    done = run(world, reduces_in(orders, streams), choose=choose)
    findings = judge(world, done)
    assert done.finished == (not hangs)
    if not hangs:
        assert findings == []
        return
    found = only(findings)
    assert "rank 1: e #1 before d #1" in found.message
    assert ("a device runs 1 at a time" in found.message) == (residency == 1)
    assert (found.culprit and found.culprit.rank) == (1 if len(orders) == 3 else None)


# ---- collectives whose members need not wait for all


def broadcasts(orders: Sequence[str], roots: dict[str, int], streams: str = "main main") -> Made:
    made = Made(len(orders))
    on = dict(zip(("dp", "ep"), streams.split(), strict=True))
    for hand, order in zip(made.hands, orders, strict=True):
        for communicator in order.split():
            hand.collective(communicator, on[communicator], op="broadcast", root=roots[communicator])
        hand.begin_read(on[order.split()[-1]])
    return made


@pytest.mark.parametrize("streams", ["main main", "main side"])
@pytest.mark.parametrize(("roots", "proven"), [({"dp": 1, "ep": 0}, True), ({"dp": 0, "ep": 1}, False)])
def test_an_inversion_is_a_proof_if_it_does_not_depend_on_a_waiting_root(
    roots: dict[str, int], proven: bool, streams: str
) -> None:
    """Rank 0 issues dp and then ep, rank 1 the reverse. If each rank first receives, the hang is certain. If each first
    sends, it blocks only if a root waits for its receivers.
    """
    found = only(broadcasts(["dp ep", "ep dp"], roots, streams).findings("blocked", "blocked"))
    assert ("all members wait for all" in found.message) == (not proven)
    assert "rank 0: dp #0 before ep #0; rank 1: ep #0 before dp #0" in found.message


def test_a_rank_without_elements_delays_no_rank() -> None:
    """Rank 2 contributes no elements. So its late arrival is not the reason why ranks 0 and 1 hang."""
    made = Made(3)
    for rank, order in enumerate(["dp ep", "ep dp", "ep dp"]):
        for communicator in order.split():
            sizes = (4, 4, 0)
            made[rank].collective(communicator, "main", op="all_gather", count=sizes[rank], sizes=sizes)
    found = only(made.findings(*["blocked"] * 3))
    assert "rank 0: dp #0 before ep #0; rank 1: ep #0 before dp #0" in found.message
    assert "rank 2" not in found.message


@pytest.mark.parametrize("last", ["side", "third"])
def test_order_on_one_communicator_carries_from_one_stream_to_another(last: str) -> None:
    """On rank 0 the second dp comes after the first, which is on another stream. If ep is on the stream of the second
    dp, it comes after both.
    """
    made = Made(2)
    for communicator, stream in (("dp", "main"), ("dp", "side"), ("ep", last)):
        made[0].collective(communicator, stream)
    for communicator, stream in (("ep", "main"), ("dp", "main"), ("dp", "side")):
        made[1].collective(communicator, stream)
    found = only(made.findings("blocked", "blocked"))
    assert ("may not run both at a time" in found.message) == (last == "third"), "proven only where the order carries"
    assert "rank 1: ep #0 before dp #0" in found.message
