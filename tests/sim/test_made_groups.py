"""Tests groups that ranks create during a run. All members meet in the call; the schedule chooses nothing there, only
in later calls of the group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.program import Program
from dpsim.contract.world import At, Fault, Kill
from dpsim.diagnose.words import text
from dpsim.sim.backend import SimBackend
from tests.programs import explored, judged, run, set_to, world_of
from tests.sim.programs import usual_world
from tests.sim.test_any_source import outcomes

ALL = (0, 1)


async def sums(rank: Rank) -> tuple[int, int]:
    """The ranks add on the host and on the device of a new group."""
    group = await rank.group("experts", ALL, device=True)
    assert rank.host("experts") is group
    total = await group.all_reduce(np.array([rank.rank + 1], np.int32))
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    main.launch("fill", set_to, writes=[x], args=(10 * rank.rank,))
    rank.device("experts").all_reduce(x, main)
    return int(total[0]), int((await x.read("read"))[0])


def test_a_group_has_what_other_groups_have() -> None:
    assert not judged(usual_world(2), sums)
    assert outcomes(sums, 2) == {(3, 10)}


def test_the_members_alone_make_it() -> None:
    async def pairs(rank: Rank) -> int:
        pair = (0, 1) if rank.rank < 2 else (2, 3)
        group = await rank.group("pair", pair)
        return int((await group.all_reduce(np.array([rank.rank], np.int32)))[0])

    assert not judged(usual_world(4), pairs)
    assert explored(usual_world(4), pairs).verdict == "proven"


def test_a_message_sent_before_a_group_is_made_may_arrive_after_it() -> None:
    """Rank 1 sends to rank 0 before it joins the group. A poll of rank 0 after the group exists may still miss the
    message.
    """

    async def sends_before_the_group(rank: Rank) -> Any:
        if rank.rank:
            rank.send(0, "box", 1, "tell")
        group = await rank.group("late", ALL)
        await group.barrier()
        return await rank.mailbox("box").poll("poll") if rank.rank == 0 else None

    assert outcomes(sends_before_the_group, 2) == {None, 1}


async def crossed(rank: Rank) -> None:
    for name in ("tokens", "experts") if rank.rank == 0 else ("experts", "tokens"):
        await rank.group(name, ALL)


async def left_out(rank: Rank) -> None:
    if rank.rank == 0:
        await rank.group("tokens", ALL)


async def other_ranks(rank: Rank) -> None:
    await rank.group("tokens", (1, 2) if rank.rank == 2 else ALL)


async def other_order(rank: Rank) -> None:
    await rank.group("tokens", ALL[:: 1 - 2 * rank.rank])


async def other_devices(rank: Rank) -> None:
    await rank.group("tokens", ALL, device=bool(rank.rank))


MISSING = "HANG:COLLECTIVE:MISSING_RANK"


@pytest.mark.parametrize(
    ("script", "size", "klass", "words"),
    [
        (crossed, 2, "HANG:COLLECTIVE:ORDER_ACROSS_GROUPS", "rank 0 (tokens[0,1] #0) -> rank 1 (experts[0,1] #0)"),
        (left_out, 2, MISSING, "rank 1 left out tokens.group (barrier on tokens[0,1])"),
        (other_ranks, 3, "MISMATCH:GROUP:RANKS", "ranks 0, 1 of ranks 0, 1, without a device communicator"),
        (other_order, 2, "MISMATCH:GROUP:RANKS", "members do not make the same one"),
        (other_devices, 2, "MISMATCH:GROUP:RANKS", "rank 1 of ranks 0, 1, with a device communicator"),
    ],
)
def test_a_rank_that_does_not_make_the_group_is_blamed_with_its_line(
    script: Any, size: int, klass: str, words: str
) -> None:
    for findings in judged(usual_world(size), script), explored(usual_world(size), script).findings:
        assert findings[0].klass == klass
        assert words in text(findings[0].message)
        assert "tests/sim/test_made_groups.py:" in "".join(map(text, findings[0].details))


def test_the_minority_is_the_culprit() -> None:
    culprit = judged(usual_world(3), other_ranks)[0].culprit
    assert culprit is not None
    assert culprit.rank == 2


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        ("a group", ALL, "a name is printable ASCII without spaces"),
        ("own", ALL, "rank 0 has a communicator 'own' already"),
        ("x", (1,), "rank 0 is none of .1,.; only the members of a group may make it"),
        ("x", (0, 0), "a group needs different members from 0 to 1"),
        ("x", (0, 2), "a group needs different members from 0 to 1"),
    ],
)
def test_a_wrong_name_or_member_list_of_a_group_is_refused(name: str, ranks: tuple[int, ...], words: str) -> None:
    async def make(rank: Rank) -> None:
        if rank.rank == 0:
            with pytest.raises(ValueError, match=words):
                rank.group(name, ranks)

    assert not judged(usual_world(2), make)


def test_a_name_is_used_once() -> None:
    async def twice(rank: Rank) -> None:
        await rank.group("x", ALL)
        with pytest.raises(ValueError, match="already; give each group another name"):
            rank.group("x", ALL)

    assert not judged(usual_world(2), twice)


async def forgets(rank: Rank) -> None:
    work = rank.group("x", ALL)
    if rank.rank:
        await work


def test_making_a_group_has_to_be_awaited() -> None:
    [finding] = judged(usual_world(2), forgets)
    assert finding.klass == "LEFTOVER:NEVER_AWAITED"


@pytest.mark.parametrize(("kind", "klass"), [("skip", MISSING), ("die", "HANG:COLLECTIVE:DEAD_RANK")])
def test_faults_apply_where_a_group_is_made(kind: Any, klass: str) -> None:
    world = world_of(2, hosts=["own"], faults=(Fault(kind, 1, At("experts.group", 0)),))
    found = judged(world, made)
    assert klass in [one.klass for one in found]


async def made(rank: Rank) -> None:
    group = await rank.group("experts", ALL)
    await group.barrier()


def test_a_member_may_die_before_it_makes_it() -> None:
    world = world_of(2, hosts=["own"], kills=(Kill(1),))
    assert explored(world, made).verdict == "violated"


class Aborts(Program[Any]):
    aborts = True

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        group = await rank.group("experts", ALL)
        group.abort()


def test_a_made_group_can_be_aborted() -> None:
    assert SimBackend().run_program(world_of(2, hosts=["own"]), Aborts(), None).finished


def test_all_members_decide_in_it() -> None:
    async def decides(rank: Rank) -> None:
        await rank.group("experts", ALL)
        rank.decide("size", rank.rank, "experts")

    [finding] = judged(usual_world(2), decides)
    assert finding.klass == "DISAGREEMENT:SIZE"


def test_the_record_of_a_group_names_its_members() -> None:
    journal = run(usual_world(2), made).journals[0]
    [raw] = [raw for raw in journal if raw[KIND] == "group"]
    assert raw[-4:] == ("experts[0,1]", "experts", False, (0, 1))
