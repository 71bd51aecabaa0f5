"""Which of two calls that meet and differ departs from its site: by relations of its step, or by what it always has."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.blame.relations import Relations
from dpsim.checks.blame.steps import Steps
from dpsim.checks.finding import Finding
from dpsim.checks.run_index import RunIndex
from tests.checks.blame.lines import changed, healthy, left_out, stages, twice
from tests.checks.handmade import Made

COUNTS = [6, 2, 9, 4, 4]

SITES = [(0, "hidden.send"), (0, "rest.send"), (1, "hidden.receive"), (1, "rest.receive")]


def of(made: Made) -> Finding:
    [found] = made.findings()
    return found


def who(found: Finding) -> tuple[int, int, str] | None:
    culprit = found.culprit
    return None if culprit is None else (culprit.rank, culprit.step, culprit.site)


def test_counts_that_change_on_both_sides_are_no_finding() -> None:
    assert not stages(COUNTS, healthy).findings()


@pytest.mark.parametrize(("rank", "site"), SITES)
@pytest.mark.parametrize("count", [1, 5])
def test_a_count_that_departs_from_what_it_goes_with(count: int, rank: int, site: str) -> None:
    found = of(stages(COUNTS, changed(3, site, count=count)))
    assert (found.klass, who(found)) == ("MISMATCH:TRANSFER:COUNT", (rank, 3, site))
    assert any("as many as in layers in 4 of 4 other steps, so here 4" in line for line in found.ground)


@pytest.mark.parametrize(("rank", "site"), SITES)
@pytest.mark.parametrize("step", [0, 4])
def test_a_type_that_departs_from_what_its_site_always_has(step: int, rank: int, site: str) -> None:
    found = of(stages(COUNTS, changed(step, site, dtype="int64")))
    assert (found.klass, who(found)) == ("MISMATCH:TRANSFER:DTYPE", (rank, step, site))


def test_a_ratio_is_a_relation_too() -> None:
    """Rank 1 receives a whole tensor for each row."""

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        if "op" not in call:
            return [call]
        rows = 3 * call["count"]
        return [call | {"count": rows + (step == 1 and call["site"] == "rest.receive")}]

    made = stages(COUNTS, fault)
    assert who(of(made)) == (1, 1, "rest.receive")
    relations = Relations(Steps(RunIndex.of(made.world, made.run())))
    calls = [did for (rank, _), row in relations.steps.rows.items() for did in row if rank == 1]
    receives = [did for did in calls if did.name[1] == "rest.receive"]
    told = relations.of(receives[1], [did for did in receives if did.entry.step != 1])
    assert "3 times as many as in layers in 4 of 4 other steps, so here 6" in [one.why for one in told]


# ---- no evidence, no culprit


def test_a_count_of_which_nothing_else_in_the_step_is_known() -> None:
    """The sides make these transfers and nothing more, and each tensor has its own numbers."""
    sizes = {"hidden": [6, 2, 9, 4, 4], "rest": [1, 8, 3, 7, 5]}

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        count = sizes[call["site"].partition(".")[0]][step]
        return [call | {"count": count + (step == 3 and call["site"] == "hidden.send")}]

    found = of(stages(COUNTS, fault, alone=True))
    assert (found.klass, found.culprit) == ("MISMATCH:TRANSFER:COUNT", None)


def test_a_side_that_is_wrong_in_itself_is_not_told_from_the_other() -> None:
    """Rank 1 goes on with the number that it received: each side keeps its relations."""

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        mine = step == 3 and (call.get("op") == "recv" or "elements" in call)
        return [{key: 5 if mine and key in ("count", "elements") else value for key, value in call.items()}]

    made = stages(COUNTS, fault)
    sender = stages(COUNTS)
    made[0].journal = sender[0].journal
    assert of(made).culprit is None


def test_one_other_step_is_enough_if_several_sites_changed_together() -> None:
    found = of(stages([6, 2], changed(1, "rest.send", count=3)))
    assert who(found) == (0, 1, "rest.send")
    assert found.ground[0] == "rest.send of rank 0: as many as in layers in the other step, so here 2"


@pytest.mark.parametrize(("counts", "alone"), [([6, 2], True), ([6, 6], False), ([6], False)])
def test_one_other_step_is_chance_if_few_sites_did_or_nothing_changed(counts: list[int], alone: bool) -> None:
    step = len(counts) - 1
    assert of(stages(counts, changed(step, "rest.send", count=7), alone=alone)).culprit is None


@pytest.mark.parametrize("fault", [left_out(0, "hidden.send"), twice(0, "hidden.send")])
def test_calls_that_meet_since_one_is_missing_are_not_held_against_each_other(fault: Any) -> None:
    """Counts of the two tensors differ: so the shapes do, of each pair behind the missing one."""

    def both(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        wide = call["site"].startswith("rest.")
        return [one | {"count": one["count"] + 1} if wide else one for one in fault(step, call)]

    first = stages(COUNTS, both).findings("blocked", "blocked")[0]
    assert who(first) == (0, 0, "hidden.send")


# ---- groups of two


def group(**odd: Any) -> Made:
    """Ranks 0 and 1 broadcast from 1; rank 0 has other fields in step 2."""
    made = Made(2)
    for step in range(4):
        for hand in made.hands:
            hand.step = step
            site = "tokens.send" if hand.rank == 1 else "tokens.receive"
            fields: dict[str, Any] = {"op": "broadcast", "root": 1, "site": site}
            hand.collective("dp", "main", **fields | (odd if (hand.rank, step) == (0, 2) else {}))
    return made


@pytest.mark.parametrize(
    ("odd", "field"),
    [({"dtype": "int64"}, "DTYPE"), ({"root": 0}, "ROOT"), ({"op": "all_reduce"}, "OP"), ({"count": 9}, "COUNT")],
)
def test_a_member_of_two(odd: dict[str, Any], field: str) -> None:
    found = of(group(**odd))
    assert (found.klass, who(found)) == (f"MISMATCH:COLLECTIVE:{field}", (0, 2, "tokens.receive"))
    assert "nothing says" not in found.message


def test_a_root_is_that_of_the_other_calls_of_the_group() -> None:
    """Each site is called once: that the group has one root is known from the calls at other sites."""
    made = Made(2)
    for hand in made.hands:
        for site in ("tokens", "counts", "drafts"):
            root = 0 if (hand.rank, site) == (0, "counts") else 1
            hand.collective("dp", "main", op="broadcast", root=root, site=f"{site}.{hand.rank}")
    found = of(made)
    assert (found.klass, who(found)) == ("MISMATCH:COLLECTIVE:ROOT", (0, 0, "counts.0"))
    assert found.message.startswith("rank 0 called broadcast int32[8] root 0 on dp #1 in step 0 where rank 1 called ")
    assert found.ground == ("counts.0 of rank 0: root 1 in 2 of 2 other calls",)


def test_a_root_that_goes_round_says_nothing() -> None:
    made = Made(2)
    for hand in made.hands:
        for number, site in enumerate(("tokens", "counts", "drafts")):
            root = 0 if (hand.rank, site) == (0, "counts") else 1 - number // 2
            hand.collective("dp", "main", op="broadcast", root=root, site=f"{site}.{hand.rank}")
    assert of(made).culprit is None
