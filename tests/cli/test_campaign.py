"""Tests `dpsim campaign`: a night of seconds, its report, and bad input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.cli import campaign_text
from tests.cli.commands import Answer, dpsim_, write

MODULE = ("--module", "tests.campaign.covered_programs")
FILE = "name: wake\nprotocol: {name: t_covered, variant: VARIANT}\n"
FIRST, SECOND = "2026-11-26", "2026-11-27"
SMALL = ("--size", "minute", "--schedules", "20", "--part", "scenarios", "--part", "swarm", "--worlds", "2")


def nightly(date: str, variant: str = "null", *words: str) -> Answer:
    file = write(Path("wake.yaml"), FILE.replace("VARIANT", variant))
    return dpsim_("campaign", "nightly", file, *MODULE, "--out", "n", "--night", date, *SMALL, *words)


def unexplained(report: str) -> list[str]:
    """The columns of a report's first table that the lines below it do not explain."""
    table = report.split("\n\n")[1]
    named = [
        name.strip() for names in re.findall(r"([a-z, ]+): ", table.replace("\n", " ")) for name in names.split(",")
    ]
    return [column for column in re.split(r"  +", table.splitlines()[0])[1:] if column not in named]


def test_nightly_writes_rows_that_report_reads() -> None:
    answer = nightly(FIRST)
    assert answer.code == 0, answer.err
    assert answer.out == "2 rows in n/2026-11-26.jsonl\nnext      dpsim campaign report n\n"
    report = dpsim_("campaign", "report", "n")
    assert report.code == 0
    assert report.out.splitlines()[0] == "night 2026-11-26, the first night"
    assert "\n\nno failure\n\nreached    probes   modes  branches" in report.out
    assert "\nt_covered  2 of 2  1 of 2 " in report.out
    assert unexplained(report.out) == []
    assert unexplained(report.out.replace("left out, lost: ", "")) == ["left out", "lost"], "the twin"


def test_a_planted_failure_is_new_in_the_second_night() -> None:
    nightly(FIRST)
    answer = nightly(SECOND, "T-COVERED-BREAKS")
    assert answer.code == 1
    assert answer.out.startswith("scenarios wake: ")
    report = dpsim_("campaign", "report", "n")
    assert report.code == 1
    assert report.out.splitlines()[0] == "night 2026-11-27, after 1 night"
    line = next(line for line in report.out.splitlines() if line.startswith("new "))
    assert line.startswith("new  scenarios wake: ")
    assert "(CRASH:ASSERTIONERROR rank 0 " in line
    replay = next(line for line in report.out.splitlines() if "dpsim replay" in line).split()[1:]
    assert replay[-2:] == [*MODULE]
    assert "CRASH:ASSERTIONERROR" in dpsim_(*replay).out
    found = dpsim_("campaign", "report", "n", "--json").json
    assert [(one["part"], one["name"], one["since"]) for one in found["new"]] == [("scenarios", "wake", SECOND)]
    assert (found["known"], found["gone"], found["before"]) == ([], [], [FIRST])


def test_a_failure_of_both_nights_is_known() -> None:
    nightly(FIRST, "T-COVERED-BREAKS")
    nightly(SECOND, "T-COVERED-BREAKS")
    report = dpsim_("campaign", "report", "n")
    assert report.code == 1
    assert "\nknown  scenarios wake (CRASH:ASSERTIONERROR rank 0 " in report.out
    assert ", since 2026-11-26\n" in report.out
    assert "\nnew" not in report.out


def test_the_report_lists_first_a_probe_that_only_an_earlier_night_reached() -> None:
    nightly(FIRST)
    nightly(SECOND, "T-COVERED-WAITS")
    answer = dpsim_("campaign", "report", "n", "--json")
    assert {"kind": "probes", "name": "t_covered: late", "reached_on": FIRST} in answer.json["never"]
    assert "probes   t_covered: late (reached on 2026-11-26)\n" in dpsim_("campaign", "report", "n").out


def test_a_night_that_ran_nothing_is_not_green() -> None:
    """If a part of the night ran nothing, the command exits with 1. With sizes for the small worlds, they run, and it
    exits with 0.
    """
    words = ("campaign", "nightly", write(Path("wake.yaml"), FILE.replace("VARIANT", "null")), *MODULE, "--out", "n")
    answer = dpsim_(*words, "--night", FIRST, "--size", "minute", "--part", "small")
    why = "small ran nothing: no sizes: the parameters have none; give --all-up-to ranks=2,load=1"
    assert (answer.code, answer.out.splitlines()[:2]) == (1, [why, "1 row in n/2026-11-26.jsonl"])
    report = dpsim_("campaign", "report", "n")
    assert (report.code, "no failure" in report.out, f"\n{why}\n" in report.out) == (1, False, True)
    assert [one["part"] for one in dpsim_("campaign", "report", "n", "--json").json["ran_nothing"]] == ["small"]
    twin = dpsim_(*words, "--night", SECOND, "--size", "minute", "--part", "small", "--all-up-to", "load=2")
    assert (twin.code, "ran nothing" in twin.out) == (0, False)
    assert "\n\nno failure\n\n" in dpsim_("campaign", "report", "n").out


def test_no_failure_names_the_parts_that_ran() -> None:
    nightly(FIRST, "T-COVERED-WAITS")
    assert "\n\nno failure in scenarios\nswarm ran nothing: no scenario" in dpsim_("campaign", "report", "n").out


def test_nightly_prints_its_rows_as_json() -> None:
    found = nightly(FIRST, "null", "--json").json
    assert (found["night"], found["file"]) == (FIRST, "n/2026-11-26.jsonl")
    assert [(row["part"], row["name"]) for row in found["rows"]] == [("scenarios", "wake"), ("swarm", "wake")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nightly", "--night", "tonight"), "--night: 'tonight' is no date; expected one such as 2026-11-27"),
        (("nightly", "--night", "2026-13-01"), "--night: month must be in 1..12"),
        (("nightly", "--part", "dream"), "--part: there is no part 'dream' (there are scenarios, swarm, "),
        (("nightly", "--size", "week"), "--size: there is no size 'week' (there are night, hour, minute)"),
        (("nightly", "--part", "tests", "--tests", "none.xml"), "none.xml: No such file or directory"),
        (("nightly", "no-such-scenario"), "no scenario 'no-such-scenario': "),
        (("report", "none"), "none: no such folder; expected one in which `dpsim campaign nightly` wrote nights"),
        (("report", "."), ".: no night is in it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_option_of_campaign_is_bad_input(words: tuple[str, ...], says: str) -> None:
    answer = dpsim_("campaign", *words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"dpsim: {says}") or f"dpsim: {says}" in answer.err, answer.err
    assert "Traceback" not in answer.err


def test_a_damaged_line_is_one_error() -> None:
    nightly(FIRST)
    file = Path("n", f"{FIRST}.jsonl")
    file.write_text(file.read_text() + '{"schema_version": 1, "part"')
    answer = dpsim_("campaign", "report", "n", "--json")
    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert answer.json["error"]["message"].startswith("n/2026-11-26.jsonl: line 4 is no row of a night: ")


def test_few_failures_are_printed() -> None:
    """The report prints the first failures of each kind, and the number of the others."""
    from dpsim.campaign.nights.report import report_of
    from dpsim.campaign.nights.rows import Found, NightRow, append

    found = tuple(Found(what=f"HANG {number}") for number in range(100))
    append(Path("n", f"{FIRST}.jsonl"), NightRow(part="swarm", name="wake", failures=found, lost="no memory"))
    lines = campaign_text.report_as_text(report_of(Path("n"))).splitlines()
    assert len(lines) < 20
    assert any(line.strip() == "and 95 more failures" for line in lines)
    assert any(line.split() == ["lost", "swarm", "wake:", "no", "memory"] for line in lines)
