"""Prints a night and its report as text: new failures first, then a table, and last what no world reached.

    night 2026-11-27, after 12 nights

    part   items  left out  worlds  schedules  failures  lost  seconds
    swarm     31         0   1,000     41,206         1     0    2,904

    new    swarm wake: wake-swarm-7: nothing came (CRASH:ASSERTIONERROR rank 0 take)
           dpsim replay nights/traces/wake-swarm-7-ab2cb8e2.jsonl

    reached  probes   modes  branches    rows
    wake     4 of 5  2 of 2  40 of 52  1 of 3

    never reached by 1,000 worlds:
    ...

`--json` prints all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsim.cli import coverage_text
from dpsim.cli.console import columns
from dpsim.contract.words import counted, short

if TYPE_CHECKING:
    from dpsim.campaign.coverage import Coverage
    from dpsim.campaign.nights.report import NightFailure, PartTotal, Report
    from dpsim.campaign.nights.rows import NightRow

MOST = 5

HEAD = ("part", "items", "left out", "worlds", "schedules", "failures", "lost", "seconds")
LEGEND = """\
items: scenarios, variants or tests of a part; left out, lost: items that did not run, or that the
machine could not finish; worlds, schedules, failures: of all items; seconds: on the clock
"""


def night_as_text(file: Path, rows: Sequence[NightRow], parts: Sequence[str]) -> str:
    """Returns the text for the rows of a night. `parts`: the parts that the user chose."""
    from dpsim.campaign.nights.idle import ran_nothing

    failures = [(row, found) for row in rows for found in row.failures]
    lines = [f"{row.part} {row.name}: {short(found.message or found.what, 160)}" for row, found in failures[:MOST]]
    lines += [f"and {counted(len(failures) - MOST, 'more failure')}"] if len(failures) > MOST else []
    lines += [f"{part} ran nothing: {short(why, 160)}" for part, why in ran_nothing(parts, rows).items()]
    lines += [f"{counted(len(rows), 'row')} in {file}", f"next      dpsim campaign report {file.parent}"]
    return "\n".join(lines)


def night_as_json(night: str, file: Path, rows: Sequence[NightRow]) -> dict[str, Any]:
    """Returns the same rows as plain data. What the rows reached is only in the file."""
    plain = [row.model_dump(mode="json", exclude={"reached", "schema_version"}) for row in rows]
    return {"night": night, "file": str(file), "rows": plain}


def report_as_text(report: Report) -> str:
    """Returns the text of a report, which compares the newest night with the nights before."""
    before = f"after {counted(len(report.before), 'night')}" if report.before else "the first night"
    rows = [
        *_failures("new", report.new, full=True),
        *_failures("known", report.known),
        *_failures("gone", report.gone),
    ]
    rows += [("lost" * (not at), f"{part} {name}: {short(why, 120)}") for at, (part, name, why) in _some(report.lost)]
    lines = [f"night {report.night}, {before}", "", *_table(report.totals), *LEGEND.splitlines(), ""]
    ran = ", ".join(one.part for one in report.totals if one.part not in report.ran_nothing)
    where = f" in {ran}" if report.ran_nothing else ""
    lines += columns(rows) if rows else [f"no failure{where}"] if ran else [] if report.ran_nothing else ["no row"]
    lines += [f"{part} ran nothing: {short(why, 160)}" for part, why in report.ran_nothing.items()]

    def remark(kind: str, name: str) -> str:
        last = report.reached_on.get((kind, name))
        return "" if last is None else f" (reached on {last})"

    return "\n".join([*lines, "", *_by_protocol(report.coverage), "", coverage_text.as_text(report.coverage, remark)])


def _by_protocol(coverage: Coverage) -> list[str]:
    counts: dict[str, dict[str, list[bool]]] = {}
    for kind, names in coverage.counts.items():
        for name, worlds in names.items():
            counts.setdefault(name.partition(": ")[0], {}).setdefault(kind, []).append(worlds > 0)
    rows = [
        (protocol, *(f"{sum(own[kind]):,} of {len(own[kind]):,}" if kind in own else "" for kind in coverage.counts))
        for protocol, own in sorted(counts.items())
    ]
    return _in_line([("reached", *coverage.counts), *rows])


def _table(totals: Sequence[PartTotal]) -> list[str]:
    return _in_line([HEAD, *((one.part, *(f"{number:,.0f}" for number in one[1:])) for one in totals)])


def _in_line(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]


def _failures(title: str, failures: Sequence[NightFailure], full: bool = False) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for at, (part, name, found, since) in _some(failures):
        says = f": {short(found.message, 160)}" if full and found.message else ""
        what = "" if found.what in (found.message, "failure", "error") else f" ({short(found.what, 120)})"
        rows.append((title * (not at), f"{part} {name}{says}{what}{'' if full else f', since {since}'}"))
        rows += [("", found.show)] if full and found.show else []
    return rows + ([("", f"and {counted(len(failures) - MOST, 'more failure')}")] if len(failures) > MOST else [])


def _some(items: Sequence[Any]) -> Iterable[tuple[int, Any]]:
    return enumerate(items[:MOST])
