"""Tests a collective call that met a different call. The checks blame the member that made one call too many, or left
one out.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import At, Fault
from dpsim.diagnose.words.told import Told
from tests.checks.handmade import Made
from tests.programs import Script, add, copy, judged, set_to, world_of


def model(layers: int, steps: int = 1) -> Script:
    """Each layer dispatches a row to each rank and combines the rows; the rank asserts the result."""

    async def script(rank: Rank) -> None:
        main, experts, size = rank.stream("main"), rank.device("ep"), rank.device("ep").size
        rows, room = main.alloc(size, "int32", "rows"), main.alloc(size, "int32", "room")
        for rank.step in range(steps):
            main.launch("embed", set_to, writes=[room], args=(1,))
            for _ in range(layers):
                sizes: Any = {"source_sizes": [1] * size, "output_sizes": [1] * size}
                main.launch("permute", copy, reads=[room], writes=[rows])
                experts.all_to_all(room, rows, main, site="dispatch", **sizes)
                main.launch("expert", add, reads=[room], writes=[rows])
                experts.all_to_all(room, rows, main, site="combine", **sizes)
            assert (await room.read("logits")).tolist() == [2**layers] * size

    return script


def planted(kind: Any, rank: int, ordinal: int, ranks: int = 2, layers: int = 2, steps: int = 1) -> list[Told]:
    fault = Fault(kind, rank, At("dispatch", ordinal))
    return judged(world_of(ranks, devices=["ep"], faults=(fault,)), model(layers, steps))


@pytest.mark.parametrize(("ranks", "layers", "rank", "ordinal"), [(2, 2, 1, 0), (2, 3, 0, 1), (3, 1, 2, 0)])
def test_a_call_made_twice_is_reported_before_the_assertion_that_fails_from_it(
    ranks: int, layers: int, rank: int, ordinal: int
) -> None:
    found = planted("repeat", rank, ordinal, ranks, layers)
    assert [one.klass for one in found[:2]] == ["HANG:COLLECTIVE:EXTRA_CALL", "CRASH:ASSERTIONERROR"]
    culprit = found[0].culprit
    assert culprit is not None
    assert (culprit.rank, culprit.step, culprit.site) == (rank, 0, "dispatch")
    assert f"rank {rank} made dispatch (all_to_all on ep) once more in step 0; its dispatch at" in found[0].message


def test_the_ground_counts_the_places_where_threads_call_in_the_usual_order() -> None:
    [found, *_] = planted("repeat", 1, 0)
    assert found.ground == ("without this dispatch, expert follows dispatch as in 2 other places",)
    [found, *_] = planted("skip", 1, 1)
    assert found.ground == ("dispatch comes between permute and expert in 2 other places",)
    [found, *_] = planted("repeat", 1, 0, ranks=3)
    assert found.ground == ("2 other members of ep called combine",)


@pytest.mark.parametrize(("ordinal", "layers"), [(0, 3), (1, 2)])
def test_a_call_left_out(ordinal: int, layers: int) -> None:
    found = planted("skip", 0, ordinal, layers=layers)
    culprit = found[0].culprit
    assert culprit is not None
    assert (culprit.rank, culprit.step, culprit.site) == (0, 0, "dispatch")
    assert found[0].klass == "HANG:COLLECTIVE:MISSING_RANK"


@pytest.mark.parametrize("kind", ["skip", "repeat"])
def test_with_one_place_and_two_ranks_nothing_decides(kind: str) -> None:
    """With one layer, one step and two ranks, no other place shows the usual order of calls. So no rank is blamed; the
    one that raises may be the victim.
    """
    assert not [one for one in planted(kind, 0, 0, layers=1) if one.ground and one.culprit]
    if kind == "repeat":
        [found] = planted(kind, 0, 0, layers=1)
        assert (found.klass, found.culprit) == ("CRASH:ASSERTIONERROR", None)


def test_a_rank_with_a_new_call_is_not_always_wrong() -> None:
    """Rank 0 blocks in a call that no earlier step had, and rank 1 sleeps. Rank 0 may be right, so the finding gives no
    evidence (ground) against a rank.
    """
    made = Made(2)
    for hand in made.hands:
        for hand.step in range(3):
            hand.learned(hand.collective("cpu", None, op="all_reduce"))
            hand.learned(hand.take("idle"), "more")
    made[0].collective("cpu", None, op="barrier")
    made[1].take("idle")
    assert [one.ground for one in made.findings("blocked", "finished")] == [(), ()]


def threaded(odd: int | None) -> list[Told]:
    """Two threads of each rank call in turn, at one site. Rank `odd` calls once more in its first thread."""
    made = Made(2)
    for rank in range(2):
        for at in range(4):
            for made[rank].thread in ("u0", "u1"):
                made[rank].launch("attention", "main")
                made[rank].collective("ep", "main")
                if (rank, at, made[rank].thread) == (odd, 1, "u0"):
                    made[rank].collective("ep", "main")
    return made.findings("raised", "raised")


def test_threads_that_call_in_turn_show_it_where_sites_do_not() -> None:
    [found, *_] = [one for one in threaded(1) if one.check == "ledger"]
    assert found.culprit is not None
    assert (found.culprit.rank, found.culprit.thread) == (1, "u0")
    assert not [one for one in threaded(None) if one.check == "ledger"]


def test_threads_that_always_meet_under_other_names_are_no_finding() -> None:
    """Rank 1 names its threads the other way round, so the names of two threads that meet always differ. The finding is
    the different count of the last step.
    """
    made = Made(2)
    for hand, names in zip(made.hands, (("u0", "u1"), ("u1", "u0")), strict=True):
        for hand.step in range(3):
            for name in names:
                hand.thread = name
                hand.launch("attention", "main")
                hand.collective("ep", "main", count=8 + ((hand.rank, hand.step) == (1, 2)))
    found = made.findings("finished", "finished")
    assert [one.klass for one in found if one.check == "ledger"] == ["MISMATCH:COLLECTIVE:COUNT"]
