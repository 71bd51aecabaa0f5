"""Tests coverage: how many worlds reached each probe, mode and table row that a protocol declares, and each order of
two racing sites. A variant that reaches less counts less.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.campaign.coverage import KINDS, Coverage
from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.processes import explore_all
from dpsim.campaign.subject import Subject
from dpsim.cli import coverage_text
from dpsim.explore import Exploration
from dpsim.scenario import Scenario, scenario_from
from tests.campaign.covered_programs import Covered


def covered(variant: str | None = None, **choice: Any) -> Scenario:
    return scenario_from({"name": "covered", "protocol": {"name": "t_covered", "variant": variant, **choice}})


def explored(variant: str | None = None, **choice: Any) -> Explored:
    found = explore_subject(Subject.of(covered(variant, **choice)), stop_at_first=False)
    assert found.verdict == "proven"
    return found


def coverage_of(*worlds: Explored) -> Coverage:
    coverage = Coverage()
    for one in worlds:
        coverage.add(one.subject, one.exploration)
    return coverage


def test_coverage_counts_what_one_world_reaches() -> None:
    coverage = coverage_of(explored())
    assert coverage.worlds == 1
    assert coverage.counts["probes"] == {"t_covered: early": 1, "t_covered: late": 1}
    assert coverage.counts["modes"] == {"t_covered: small": 1, "t_covered: large": 0}
    assert {name for name, worlds in coverage.counts["rows"].items() if worlds} == {
        "t_covered: form plain",
        "t_covered: piece kind short",
        "t_covered: row one",
    }
    assert coverage.never("rows") == ["t_covered: form newer", "t_covered: piece kind long", "t_covered: row two"]
    assert [*coverage.counts["branches"].values()] == [1, 1], "the post and the poll happen in both orders"
    assert coverage.never("branches") == []


def test_a_variant_that_waits_for_its_message_reaches_less() -> None:
    """In this variant, rank 0 waits for its message. So the probe "late" is never reached, and no two sites occur in
    both orders.
    """
    coverage = coverage_of(explored("T-COVERED-WAITS"))
    assert coverage.never("probes") == ["t_covered: late"]
    assert coverage.counts["rows"]["t_covered: variant T-COVERED-WAITS"] == 1
    assert "t_covered: variant T-COVERED-WAITS" not in coverage_of(explored()).counts["rows"]


def test_coverage_adds_up_what_worlds_reach() -> None:
    coverage = coverage_of(explored(), explored("T-COVERED-WAITS"), explored(form="newer", params={"load": 2}))
    assert coverage.counts["probes"] == {"t_covered: early": 3, "t_covered: late": 2}
    assert coverage.never("modes") == []
    assert coverage.never("rows") == ["t_covered: piece kind long"]
    again = Coverage()
    again.merge(coverage.counts, coverage.worlds)
    again.merge({"rows": {"t_covered: piece kind long": 1}}, 1)
    assert (again.worlds, again.never("rows")) == (4, [])


@pytest.mark.parametrize("races", [[("a", "b")], [("a", "b"), ("b", "a")]])
def test_coverage_lists_an_order_that_no_schedule_had(races: list[tuple[str, str]]) -> None:
    found = Exploration(runs=1)
    found.races.update(races)
    coverage = Coverage()
    coverage.add(Subject.of(covered()), found)
    assert coverage.never("branches") == ["t_covered: b before a"] * (len(races) == 1)


def test_declared_probes_modes_and_rows_count_as_never_reached() -> None:
    coverage = Coverage()
    coverage.declare("t_covered")
    assert {kind: len(coverage.never(kind)) for kind in KINDS} == {"probes": 2, "modes": 2, "branches": 0, "rows": 6}
    names = explored().exploration.decided
    assert names == {"small": 2, "one": 2}, "the value of a decision counts, not its label alone"


def test_no_schedule_reaches_nothing() -> None:
    coverage = Coverage()
    coverage.add(Subject.of(covered()), Exploration())
    assert all(not coverage.reached(kind) for kind in KINDS)


def test_two_processes_reach_what_one_does() -> None:
    one, two = (explore_all([Subject.of(covered())], jobs=jobs)[0] for jobs in (1, 2))
    assert coverage_of(one).counts == coverage_of(two).counts
    assert one.exploration.decided == two.exploration.decided != {}


def test_the_text_of_coverage_fits_on_a_screen() -> None:
    coverage = Coverage()
    coverage.merge({kind: {f"p: {number}": 0 for number in range(1_000)} for kind in KINDS})
    lines = coverage_text.as_text(coverage).splitlines()
    assert len(lines) <= 24
    assert sum("and 996 more" in line for line in lines) == len(KINDS)
    assert coverage_text.as_text(Coverage()).splitlines()[0] == "never reached by 0 worlds: nothing"


def test_a_mode_and_a_row_have_two_names() -> None:
    assert not set(Covered.modes) & set(Covered.rows)
