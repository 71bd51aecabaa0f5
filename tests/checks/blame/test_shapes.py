"""Tests which of two calls with different counts or dtypes is odd. The checks compare each call with other calls in its
step, and with the same site in other steps.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.blame.relations import Relations
from dpsim.checks.blame.steps import Steps
from dpsim.checks.run_index import RunIndex
from dpsim.diagnose.words.told import Told
from tests.checks.blame.lines import changed, healthy, left_out, lines, stages, twice
from tests.checks.handmade import Made

COUNTS = [6, 2, 9, 4, 4]

SITES = [(0, "hidden.send"), (0, "rest.send"), (1, "hidden.receive"), (1, "rest.receive")]


def of(made: Made) -> Told:
    [found] = made.findings()
    return found


def who(found: Told) -> tuple[int, int, str] | None:
    culprit = found.culprit
    return None if culprit is None else (culprit.rank, culprit.step, culprit.site)


def test_counts_that_change_on_both_sides_are_no_finding() -> None:
    assert not stages(COUNTS, healthy).findings()


@pytest.mark.parametrize(("rank", "site"), SITES)
@pytest.mark.parametrize("count", [1, 5])
def test_a_count_that_departs_from_its_usual_relation_is_blamed(count: int, rank: int, site: str) -> None:
    found = of(stages(COUNTS, changed(3, site, count=count)))
    assert (found.klass, who(found)) == ("MISMATCH:TRANSFER:COUNT", (rank, 3, site))
    assert any("as many as in layers in 4 of 4 other steps, so here 4" in line for line in found.ground)


@pytest.mark.parametrize(("rank", "site"), SITES)
@pytest.mark.parametrize("step", [0, 4])
def test_a_type_that_departs_from_what_its_site_always_has(step: int, rank: int, site: str) -> None:
    found = of(stages(COUNTS, changed(step, site, dtype="int64")))
    assert (found.klass, who(found)) == ("MISMATCH:TRANSFER:DTYPE", (rank, step, site))


def test_a_ratio_is_a_relation_too() -> None:
    """Rank 1 receives three elements for each row, so a count that breaks the ratio is odd."""

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
    """The ranks make only these transfers, and each tensor has its own counts. So nothing shows which side is wrong."""
    sizes = {"hidden": [6, 2, 9, 4, 4], "rest": [1, 8, 3, 7, 5]}

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        count = sizes[call["site"].partition(".")[0]][step]
        return [call | {"count": count + (step == 3 and call["site"] == "hidden.send")}]

    found = of(stages(COUNTS, fault, alone=True))
    assert (found.klass, found.culprit) == ("MISMATCH:TRANSFER:COUNT", None)


def test_no_rank_is_blamed_if_each_side_is_consistent_in_itself() -> None:
    """Rank 1 computes with the count that it received, so each side keeps its relations, and no rank is blamed."""

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        mine = step == 3 and (call.get("op") == "recv" or "elements" in call)
        return [{key: 5 if mine and key in ("count", "elements") else value for key, value in call.items()}]

    made = stages(COUNTS, fault)
    sender = stages(COUNTS)
    made[0].journal = sender[0].journal
    assert of(made).culprit is None


@pytest.mark.parametrize(("counts", "alone"), [([6, 2], True), ([6, 6], False), ([6], False)])
def test_one_other_step_decides_nothing_if_few_sites_or_none_changed(counts: list[int], alone: bool) -> None:
    step = len(counts) - 1
    assert of(stages(counts, changed(step, "rest.send", count=7), alone=alone)).culprit is None


def wide(made: Made) -> Made:
    """Rank 0 makes step 1 with two elements, and rank 1 repeats the counts of step 0."""
    other = stages([6, 2])
    made[0].journal = other[0].journal
    return made


def test_a_side_on_which_nothing_changed_is_as_right_as_one_on_which_all_did() -> None:
    assert of(wide(stages([6, 6]))).culprit is None


@pytest.mark.parametrize("fault", [left_out(0, "hidden.send"), twice(0, "hidden.send")])
def test_calls_that_meet_since_one_is_missing_are_not_held_against_each_other(fault: Any) -> None:
    """The two tensors have different counts. If one transfer is missing or doubled, each later pair differs; the
    finding is the missing or extra call.
    """

    def both(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        wide = call["site"].startswith("rest.")
        return [one | {"count": one["count"] + 1} if wide else one for one in fault(step, call)]

    first = stages(COUNTS, both).findings("blocked", "blocked")[0]
    assert who(first) == (0, 0, "hidden.send")


def test_a_contradictory_side_is_not_distinguished() -> None:
    """One kernel of rank 1 fits its receive, and the other kernel fits what rank 0 sent. So no rank is blamed."""

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        if step == 3 and call["site"] == "rest.receive":
            return [call | {"count": 5}]
        return [call | {"elements": 5} if step == 3 and call["site"] == "norm" else call]

    made = stages(COUNTS, fault)
    made[0].journal = stages(COUNTS)[0].journal
    assert of(made).culprit is None


def test_a_count_that_stays_while_all_else_changes_is_odd() -> None:
    """In the last step all counts change except that of a receive, and of a kernel whose size is always the same. The
    receive is odd.
    """

    def fault(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        stale = {"norm": {"elements": 16}, "rest.receive": {"count": 8}}.get(call["site"], {})
        return [call | stale]

    found = of(stages([8, 8, 8, 4], fault))
    assert who(found) == (1, 3, "rest.receive")


def test_each_pipeline_has_its_own_ratios() -> None:
    """Each pipeline has its own ratios: ranks 2 and 3 send three tensors in one call."""

    def wide(step: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        return [call | {"count": 3 * call["count"]} if "op" in call else call]

    found = of(lines(stages(COUNTS, changed(3, "rest.send", count=5)), stages(COUNTS, wide)))
    assert who(found) == (0, 3, "rest.send")
    assert "as many as in layers in 4 of 4 other steps, so here 4" in found.ground[0]


def test_calls_that_meet_other_calls_in_another_pipeline_blame_no_rank() -> None:
    """Each side left a call out, so different calls meet. Another pipeline shows the usual count of one site, but not
    of the other; no rank is blamed.
    """
    made = Made(4)
    for step in range(3):
        for hand in made.hands[2:]:
            hand.step = step
            op, end = ("send", "send") if hand.rank == 2 else ("recv", "receive")
            for name, count in (("hidden", 8 + step), ("rest", 5)):
                hand.transfer(op, 5 - hand.rank, "main", count=count, site=f"{name}.{end}")
    made[0].transfer("send", 1, "main", count=5, site="rest.send")
    made[1].transfer("recv", 0, "main", count=8, site="hidden.receive")
    assert of(made).culprit is None


def test_no_rank_is_blamed_if_only_one_call_of_a_pair_has_a_usual_count() -> None:
    """Rank 1 receives the size twice; all ranks receive it once. Rank 0 sends its text, whose count no other step
    shows. No rank is blamed.
    """
    made = Made(4)
    for hand, sites in zip(made.hands, (("size", "text"), ("size", "size"), ("size",), ("size",)), strict=True):
        op, peer = ("send", hand.rank + 1) if hand.rank % 2 == 0 else ("recv", hand.rank - 1)
        for step in range(1 if hand.rank < 2 else 3):
            hand.step = step
            for site in sites:
                hand.transfer(op, peer, None, count=31 if site == "text" else 1, site=f"{site}.{op}")
    assert of(made).culprit is None


# ---- groups of two


def group(**odd: Any) -> Made:
    """Ranks 0 and 1 broadcast from rank 1 in four steps. Rank 0 has the fields `odd` in step 2."""
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
    """Each site is called once. The calls at other sites show that the group always has the same root."""
    made = Made(2)
    for hand in made.hands:
        for site in ("tokens", "counts", "drafts"):
            root = 0 if (hand.rank, site) == (0, "counts") else 1
            hand.collective("dp", "main", op="broadcast", root=root, site=f"{site}.{hand.rank}")
    found = of(made)
    assert (found.klass, who(found)) == ("MISMATCH:COLLECTIVE:ROOT", (0, 0, "counts.0"))
    assert found.message.startswith("rank 0 called broadcast int32[8] root 0 on dp #1 in step 0 where rank 1 called ")
    assert found.ground == ("counts.0 of rank 0: root 1 in 2 of 2 other calls with a root on dp",)


def test_a_root_that_changes_from_call_to_call_blames_no_rank() -> None:
    made = Made(2)
    for hand in made.hands:
        for number, site in enumerate(("tokens", "counts", "drafts")):
            root = 0 if (hand.rank, site) == (0, "counts") else 1 - number // 2
            hand.collective("dp", "main", op="broadcast", root=root, site=f"{site}.{hand.rank}")
    assert of(made).culprit is None
