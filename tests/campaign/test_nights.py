"""Tests reports of nightly campaigns with two small nights.

A failure that occurs only in the second night is new. A world that the second night leaves out shows as a probe that is
never reached. A night also visits the museum: the registered variants with a known bug, and for each an exhibit, a
scenario that shows the bug.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign.files import Options
from dpsim.campaign.nights import night, worlds
from dpsim.campaign.nights.idle import ENDED, WITHOUT_ROWS, ran_nothing
from dpsim.campaign.nights.night import PARTS, Night, rows_of_tests, run_night
from dpsim.campaign.nights.report import Report, report_of
from dpsim.campaign.nights.rows import BEGINS, Found, NightRefused, NightRow, append, nights, read
from dpsim.campaign.nights.sizes import SIZES, Size
from dpsim.campaign.nights.worlds import CUT
from dpsim.campaign.subject import Subject
from dpsim.contract.registry import variant
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.swarm import Swarm
from dpsim.trace import read_trace
from tests.campaign import covered_programs  # noqa: F401  # registers t_covered
from tests.campaign.test_coverage import covered
from tests.protocols import agreed, served, sized

FIRST, SECOND, THIRD = "2026-11-25", "2026-11-26", "2026-11-27"
SMALL = Size(worlds=3, schedules=8, seconds=60.0, museum_schedules=4)


def named(name: str, scenario: Scenario) -> Scenario:
    return scenario_from({**dict(scenario), "name": name})


def a_night(
    folder: Path, date: str, *scenarios: Scenario, parts: tuple[str, ...] = ("scenarios",), **more: Any
) -> list[NightRow]:
    return run_night(Night(folder, date, SMALL, parts, [(one, folder) for one in scenarios], **more))


WAITS, LOOKS, BREAKS = (named("wake", covered(one)) for one in ("T-COVERED-WAITS", None, "T-COVERED-BREAKS"))


def two_nights(folder: Path, first: Scenario, second: Scenario) -> Report:
    a_night(folder, FIRST, first)
    a_night(folder, SECOND, second)
    return report_of(folder)


# ---- what is new


def test_a_failure_of_the_second_night_is_new(tmp_path: Path) -> None:
    report = two_nights(tmp_path, LOOKS, BREAKS)
    [one] = report.new
    assert (one.part, one.name, one.since) == ("scenarios", "wake", SECOND)
    assert one.failure.what.startswith("CRASH:ASSERTIONERROR rank 0 ")
    trace = Path(one.failure.show.removeprefix("dpsim replay "))
    assert read_trace(trace).name == str(trace)
    assert (report.known, report.gone) == ([], [])


def test_a_failure_of_both_nights_is_known(tmp_path: Path) -> None:
    report = two_nights(tmp_path, BREAKS, BREAKS)
    assert (report.new, [one.since for one in report.known], report.gone) == ([], [FIRST], [])


def test_two_nights_without_failures_report_none(tmp_path: Path) -> None:
    report = two_nights(tmp_path, LOOKS, LOOKS)
    assert (report.new, report.known, report.gone, report.before) == ([], [], [], [FIRST])


def test_a_failure_is_gone_only_if_a_later_night_ran_its_world(tmp_path: Path) -> None:
    """A failure is gone only if a later night ran the same world without it."""
    report = two_nights(tmp_path, BREAKS, LOOKS)
    assert ([one.name for one in report.gone], report.new) == (["wake"], [])
    a_night(tmp_path, THIRD, named("another", LOOKS))
    assert report_of(tmp_path).gone == []


def test_a_failure_that_comes_back_is_known(tmp_path: Path) -> None:
    two_nights(tmp_path, BREAKS, LOOKS)
    a_night(tmp_path, THIRD, BREAKS)
    assert [one.since for one in report_of(tmp_path).known] == [FIRST]


# ---- what was reached


def test_a_world_left_out_is_a_probe_never_reached(tmp_path: Path) -> None:
    a_night(tmp_path, FIRST, WAITS, named("looks", LOOKS))
    assert report_of(tmp_path).coverage.never("probes") == []
    a_night(tmp_path, SECOND, WAITS)
    report = report_of(tmp_path)
    assert report.coverage.never("probes") == ["t_covered: late"]
    assert report.reached_on["probes", "t_covered: late"] == FIRST
    assert {"kind": "probes", "name": "t_covered: late", "reached_on": FIRST} in report.as_json()["never"]


def test_a_scenario_without_time_declares_all_the_same(tmp_path: Path) -> None:
    [row] = run_night(Night(tmp_path, FIRST, SMALL._replace(seconds=0.0), ("scenarios",), [(LOOKS, tmp_path)]))
    assert (row.worlds, row.left_out) == (0, "its time was up before the first schedule")
    report = report_of(tmp_path)
    assert report.coverage.never("probes") == ["t_covered: early", "t_covered: late"]
    assert [(one.looked_at, one.left_out) for one in report.totals] == [(1, 1)]


# ---- the parts


def test_a_night_explores_all_worlds_of_a_swarm(tmp_path: Path) -> None:
    """A night explores all worlds of a swarm, also after a failure. Here all worlds hold."""
    parts = ("swarm",)
    rows = a_night(tmp_path, FIRST, named("a", served()), named("b", served()), parts=parts, seed=7)
    assert [(row.name, row.worlds, row.seed) for row in rows] == [("a", 2, 7), ("b", 1, 7)]
    assert not any(row.failures for row in rows)
    [one] = a_night(tmp_path, SECOND, LOOKS, parts=parts)
    assert (one.worlds, one.failures) == (3, ())


def test_a_variant_has_no_swarm_and_no_small_worlds(tmp_path: Path) -> None:
    rows = a_night(tmp_path, FIRST, BREAKS, parts=("swarm", "small"), up_to="load=2")
    assert [(row.name, row.worlds) for row in rows] == [("swarm", 0), ("small", 0)]
    assert all("no scenario that has to hold" in row.left_out for row in rows)


def test_a_failure_does_not_end_small_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "_holds", lambda scenario: True)
    [row] = a_night(tmp_path, FIRST, BREAKS, parts=("small",), up_to="load=3")
    assert (row.verdict, row.worlds, len(row.failures)) == ("violated", 3, 1)
    [twin] = a_night(tmp_path, FIRST, LOOKS, parts=("small",), up_to="load=3")
    assert (twin.verdict, twin.worlds, twin.failures) == ("proven", 3, ())


@pytest.mark.parametrize(("most", "explored", "verdict"), [(2, 2, "sampled"), (3, 3, "proven"), (None, 3, "proven")])
def test_some_small_worlds_prove_nothing_of_the_others(
    most: int | None, explored: int, verdict: str, tmp_path: Path
) -> None:
    size = SMALL._replace(small=most)
    [row] = worlds.small_worlds([(LOOKS, tmp_path)], size, Options, "load=3")
    assert (row.worlds, row.verdict) == (explored, verdict)


def test_without_sizes_there_are_no_small_worlds(tmp_path: Path) -> None:
    [row] = a_night(tmp_path, FIRST, LOOKS, parts=("small",))
    assert (row.name, row.worlds) == ("wake", 0)
    assert row.left_out == "no sizes: the parameters have none; give --all-up-to ranks=2,load=1"
    [twin] = a_night(tmp_path, SECOND, LOOKS, parts=("small",), up_to="ranks=2,load=1")
    assert (twin.worlds, twin.left_out) == (1, ""), "the twin gets sizes, so the night explores its world"
    [row] = a_night(tmp_path, FIRST, LOOKS, parts=("small",), up_to="no_such=2")
    assert row.left_out.startswith("--all-up-to: 'no_such' is no parameter")


def test_a_swarm_draws_only_what_its_scenario_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario survives as many deaths as it plants, and time-outs that pass early only if it lets some."""
    drawn: list[tuple[tuple[str, ...], int, bool]] = []

    def note(base: Scenario, folder: Path, swarm: Swarm, seed: int, in_time: bool) -> list[Any]:
        assert not base.faults
        drawn.append((swarm.kinds, swarm.deaths, in_time))
        return []

    monkeypatch.setattr(worlds, "swarm_of", note)
    one = {"kind": "die", "rank": 0, "at": {"site": "agree", "ordinal": 0}}
    more: list[dict[str, Any]] = [{}, {"faults": [one]}, {"limits": {"early_timeouts": 1}}]
    [*worlds.swarms([(agreed({"tokens": [1, 1]}, **keys), Path()) for keys in more], SMALL, Options)]
    assert drawn == [(("delay",), 0, True), (("die", "kill", "delay"), 1, True), (("delay",), 0, False)]


EXHIBIT = """
name: t-covered-breaks
protocol: {name: t_covered, variant: T-COVERED-BREAKS}
expect: {verdict: violated}
"""


def visited(folder: Path, exhibit: str = EXHIBIT, **options: Any) -> list[NightRow]:
    (folder / "exhibits").mkdir()
    (folder / "exhibits" / "t-covered-breaks.yaml").write_text(exhibit)
    more = {"only": ["T-COVERED-BREAKS"], "exhibits": [folder / "exhibits"], **options}
    return a_night(folder, FIRST, parts=("museum",), **more)


def test_a_night_counts_what_its_museum_reaches(tmp_path: Path) -> None:
    [row] = visited(tmp_path)
    assert (row.name, row.verdict, row.failures, row.worlds) == ("T-COVERED-BREAKS", "as registered", (), 2)
    coverage = report_of(tmp_path).coverage
    assert coverage.counts["rows"]["t_covered: variant T-COVERED-BREAKS"] == 1
    assert coverage.never("probes") == [], "probes that runs of the museum reach count as reached"


def test_a_variant_that_the_budget_cuts_has_a_row(tmp_path: Path) -> None:
    """The budget ends during the first variant of the museum. Its row shows that, so the report mentions the museum."""
    [row] = visited(tmp_path, seconds=0.0)
    assert (row.part, row.name, row.left_out) == ("museum", "T-COVERED-BREAKS", CUT)
    assert (row.verdict, row.worlds, row.failures) == ("", 0, ())
    report = report_of(tmp_path)
    assert report.ran_nothing == {"museum": CUT}
    assert [one.part for one in report.totals] == ["museum"]
    assert not report.new


def test_the_faulty_twin_has_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin writes no row when the time ends, so the report only knows that the night ended."""

    def visits(*args: Any) -> Iterator[NightRow]:
        return (row for row in worlds.visits(*args) if row.left_out != CUT)

    monkeypatch.setattr(night, "visits", visits)
    assert visited(tmp_path, seconds=0.0) == []
    assert report_of(tmp_path).ran_nothing == {"museum": ENDED}


def test_a_night_visits_the_variants_of_its_scenarios_protocols(tmp_path: Path) -> None:
    """A night visits the variants of the named scenarios' protocols, here without exhibits. If no scenario is named, it
    visits only the variants that a pattern selects.
    """
    rows = a_night(tmp_path, FIRST, LOOKS, parts=("museum",))
    assert [(row.name, row.left_out) for row in rows] == [
        ("T-COVERED-BREAKS", "it has no exhibit"),
        ("T-COVERED-WAITS", "it has no exhibit"),
    ]
    assert [(row.name, row.left_out) for row in a_night(tmp_path, FIRST, parts=("museum",))] == [
        ("museum", "no variant")
    ]
    assert [row.name for row in a_night(tmp_path, FIRST, parts=("museum",), only=["t-covered-w*"])] == [
        "T-COVERED-WAITS"
    ]


def test_a_variant_that_no_strategy_finds_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant("T-COVERED-BREAKS").make, "after_late", lambda self: None)
    [row] = visited(tmp_path)
    assert [one.what for one in row.failures] == ["expected CRASH:ASSERTIONERROR, nothing was found by any strategy"]
    assert row.failures[0].show == "dpsim museum --only T-COVERED-BREAKS"


@pytest.mark.parametrize("variant_of", ["null", "T-COVERED-WAITS"])
def test_an_exhibit_with_the_wrong_variant_is_a_failure(variant_of: str, tmp_path: Path) -> None:
    """An exhibit with the wrong variant is a failure, and the night continues."""
    [row] = visited(tmp_path, EXHIBIT.replace("T-COVERED-BREAKS", variant_of))
    assert "protocol.variant: expected T-COVERED-BREAKS" in row.failures[0].what


def test_a_scenario_that_cannot_run_is_a_failure_and_its_swarm_is_left_out(tmp_path: Path) -> None:
    """A scenario that cannot run fails as it is written; a world that a swarm made of it is left out."""
    unfit = sized("t_unfit")
    [row] = a_night(tmp_path, FIRST, unfit)
    assert (row.worlds, row.left_out, row.failures[0].what) == (0, row.failures[0].what, row.left_out)
    assert "unfit for any world" in row.left_out
    [row] = a_night(tmp_path, FIRST, unfit, parts=("swarm",))
    assert (row.failures, "unfit" in row.left_out) == ((), True)


JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.test_fuzz" name="test_a[600]" time="1.25"/>
<testcase classname="tests.test_soak" name="test_b" time="2"><failure message="one&#10;two">trace</failure></testcase>
<testcase classname="tests.test_gpu" name="test_c" time="0"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""


def test_a_night_reads_the_results_of_pytest(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT)
    rows = a_night(tmp_path, FIRST, parts=("tests",), tests=file)
    assert [(row.name, row.verdict, row.seconds) for row in rows] == [
        ("tests.test_fuzz::test_a[600]", "passed", 1.25),
        ("tests.test_soak::test_b", "failed", 2.0),
        ("tests.test_gpu::test_c", "skipped", 0.0),
    ]
    [one] = report_of(tmp_path).new
    assert (one.name, one.failure.message) == ("tests.test_soak::test_b", "one")


@pytest.mark.parametrize("text", ["", "<testsuites>", '<a><testcase time="soon"/></a>'])
def test_a_night_refuses_a_file_that_is_no_report_of_pytest(text: str, tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(text)
    with pytest.raises(NightRefused, match="no report of tests"):
        [*rows_of_tests(tmp_path / "junit.xml")]
    with pytest.raises(NightRefused, match="no report of tests"):
        a_night(tmp_path, FIRST, LOOKS, tests=tmp_path / "junit.xml")
    assert not (tmp_path / f"{FIRST}.jsonl").exists(), "dpsim refuses the report before it begins the night"


def test_the_time_of_a_night_ends_it(tmp_path: Path) -> None:
    """When the time is up, the night finishes the current row and begins no other."""
    rows = a_night(tmp_path, FIRST, LOOKS, named("another", LOOKS), seconds=0.0)
    assert [row.name for row in rows] == ["wake"]
    assert len(a_night(tmp_path, SECOND, LOOKS, named("another", LOOKS))) == 2


def test_the_parts_of_a_night_are_known() -> None:
    assert PARTS == ("scenarios", "swarm", "small", "museum", "tests")
    assert SIZES["night"].worlds == 1_000


# ---- parts that ran nothing


def test_a_part_that_ran_nothing_says_why(tmp_path: Path) -> None:
    """If a part of the night ran nothing, the report gives the reason. If the small worlds have sizes, they run and are
    not in this list.
    """
    parts = ("scenarios", "small", "tests")
    a_night(tmp_path, FIRST, LOOKS, parts=parts, up_to="load=2")
    assert report_of(tmp_path).ran_nothing == {"tests": WITHOUT_ROWS["tests"]}
    a_night(tmp_path, SECOND, LOOKS, parts=parts)
    report = report_of(tmp_path)
    assert [*report.ran_nothing] == ["small", "tests"]
    assert report.ran_nothing["small"].startswith("no sizes: ")
    assert not report.idle


def test_the_report_names_a_part_that_the_night_did_not_reach(tmp_path: Path) -> None:
    a_night(tmp_path, FIRST, LOOKS, parts=("scenarios", "swarm"), seconds=0.0)
    assert report_of(tmp_path).ran_nothing["swarm"] == ENDED
    a_night(tmp_path, FIRST, LOOKS, parts=("swarm",))
    assert "swarm" not in report_of(tmp_path).ran_nothing, "a second run of the night ran the swarm"


def test_a_part_with_one_row_that_ran_is_not_named() -> None:
    """A row with a failure, a loss or worlds proves that its part ran."""
    left = NightRow(part="small", name="a", left_out="no sizes")
    assert ran_nothing(("small",), [left, left.model_copy(update={"name": "b"})]) == {"small": "no sizes"}
    for more in ({"worlds": 1}, {"lost": "no memory"}, {"failures": (Found(what="HANG"),)}):
        assert ran_nothing(("small",), [left, left.model_copy(update=more)]) == {}


def test_commands_have_the_modules_of_the_night(tmp_path: Path) -> None:
    """The commands in a report contain `--module` for each module that the night was started with."""
    [row] = a_night(tmp_path, FIRST, BREAKS, modules=("my programs.py",))
    assert row.failures[0].show.endswith(".jsonl --module 'my programs.py'")
    [twin] = a_night(tmp_path, SECOND, BREAKS)
    assert twin.failures[0].show.endswith(".jsonl")


# ---- files


def test_a_night_only_grows(tmp_path: Path) -> None:
    a_night(tmp_path, FIRST, LOOKS)
    before = (tmp_path / f"{FIRST}.jsonl").read_bytes()
    a_night(tmp_path, FIRST, named("another", LOOKS))
    assert (tmp_path / f"{FIRST}.jsonl").read_bytes().startswith(before)
    assert before.startswith(b'{"schema_version":1,')
    [(date, rows)] = nights(tmp_path).items()
    assert (date, [row.name for row in rows if row.part != BEGINS]) == (FIRST, ["wake", "another"])
    assert len(report_of(tmp_path).totals) == 1


def test_a_row_after_a_cut_is_a_line_by_itself(tmp_path: Path) -> None:
    file = tmp_path / f"{FIRST}.jsonl"
    file.write_bytes(b'{"schema_version":1,"par')
    append(file, NightRow(part="swarm", name="wake"))
    assert file.read_bytes().count(b"\n") == 2
    with pytest.raises(NightRefused, match=f"{FIRST}.jsonl: line 1 is no row of a night: .*; delete it"):
        read(file)
    file.write_bytes(file.read_bytes().partition(b"\n")[2])
    assert [row.name for row in read(file)] == ["wake"]


DAMAGED = [
    b"\n",
    b"nonsense\n",
    b"\xff\xfe\n",
    b"[]\n",
    b"{}\n",
    b'{"part": "swarm"}\n',
    b'{"part": 1, "name": "a"}\n',
    b'{"part": "a", "name": "a", "worlds": -1}\n',
    b'{"part": "a", "name": "a", "reached": {"probes": ["a"]}}\n',
    b"[" * 100_000 + b"\n",
]


@pytest.mark.parametrize("line", DAMAGED, ids=lambda line: repr(line[:30]))
def test_a_damaged_line_of_a_night_is_refused(line: bytes, tmp_path: Path) -> None:
    file = tmp_path / f"{FIRST}.jsonl"
    append(file, NightRow(part="swarm", name="wake"))
    healthy = file.read_bytes()
    file.write_bytes(healthy + line)
    with pytest.raises(NightRefused, match="line 2 is no row of a night: "):
        nights(tmp_path)
    file.write_bytes(healthy + healthy)
    assert len(nights(tmp_path)[FIRST]) == 2


def test_a_night_of_another_version_is_refused(tmp_path: Path) -> None:
    append(tmp_path / f"{FIRST}.jsonl", NightRow(schema_version=2, part="swarm", name="wake"))
    with pytest.raises(NightRefused, match="line 1 has schema_version 2; this dpsim reads 1"):
        nights(tmp_path)


def test_a_folder_without_nights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NightRefused, match="no such folder"):
        nights(tmp_path / "none")
    (tmp_path / "other.jsonl").write_text("not a night\n")
    with pytest.raises(NightRefused, match="no night is in it"):
        nights(tmp_path)
    append(tmp_path / f"{FIRST}.jsonl", NightRow(part="swarm", name="wake"))
    assert [*nights(tmp_path)] == [FIRST]


def test_the_subject_of_a_swarm_is_found() -> None:
    """The worlds of a swarm derive from the scenario without its faults."""
    dies = agreed({"tokens": [1, 1]}, faults=[{"kind": "die", "rank": 0, "at": {"site": "agree", "ordinal": 0}}])
    assert Subject.of(worlds.without_faults(dies)).world.faults == ()
