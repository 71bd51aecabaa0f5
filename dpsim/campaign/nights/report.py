"""Report: compares the newest night with earlier ones: which failures are new, and what no world of it reached.

    report = report_of(Path("nights"))
    report.new          # failures that no earlier night had
    report.coverage     # of the newest night; `reached_on` says when an earlier night reached a name last

Two failures are the same if their part, name and `what` are equal. For a scenario, `what` contains the class, the
culprit and the site. A failure of the previous night is gone only if the newest night ran its scenario, variant or test
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.campaign.coverage import KINDS, Coverage
from dpsim.campaign.nights.idle import ran_nothing
from dpsim.campaign.nights.rows import BEGINS, Found, NightRow, nights


class NightFailure(NamedTuple):
    """A failure, and the first night that had it."""

    part: str
    name: str
    failure: Found
    since: str

    def as_json(self) -> dict[str, Any]:
        """Returns the failure as plain data."""
        found = self.failure
        of = {"part": self.part, "name": self.name, "since": self.since}
        return {**of, "what": found.what, "message": found.message, "show": found.show or None}


class PartTotal(NamedTuple):
    """The totals of a part. `looked_at`: scenarios, variants or tests; `left_out`: how many of them did not run."""

    part: str
    looked_at: int
    left_out: int
    worlds: int
    schedules: int
    failures: int
    lost: int
    seconds: float


@dataclass
class Report:
    """The newest night, compared with those `before`: its `new` and `known` failures, and those that are `gone`.
    `reached_on`: the last earlier night that reached a name. `ran_nothing`: the parts that did nothing, with the
    reason.
    """

    night: str
    before: Sequence[str]
    totals: Sequence[PartTotal]
    new: Sequence[NightFailure]
    known: Sequence[NightFailure]
    gone: Sequence[NightFailure]
    lost: Sequence[tuple[str, str, str]]
    coverage: Coverage
    reached_on: dict[tuple[str, str], str]
    ran_nothing: dict[str, str]

    @property
    def idle(self) -> bool:
        """Whether no part did anything."""
        return all(one.part in self.ran_nothing for one in self.totals)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as plain data."""
        never = [
            {"kind": kind, "name": name, "reached_on": self.reached_on.get((kind, name))}
            for kind in KINDS
            for name in self.coverage.never(kind)
        ]
        return {
            "night": self.night,
            "before": list(self.before),
            "parts": [one._asdict() for one in self.totals],
            "new": [one.as_json() for one in self.new],
            "known": [one.as_json() for one in self.known],
            "gone": [one.as_json() for one in self.gone],
            "lost": [dict(zip(("part", "name", "why"), one, strict=True)) for one in self.lost],
            "ran_nothing": [{"part": part, "why": why} for part, why in self.ran_nothing.items()],
            "never": never,
            "coverage": self.coverage.as_json(),
        }


def report_of(folder: Path) -> Report:
    """Returns the report for a folder. Raises NightRefused for a folder without nights, and for a damaged line."""
    every = nights(folder)
    *before, night = every
    since = _since(every)
    failures = [NightFailure(*key, found, since[key, found.what]) for key, found in _failures(every[night])]
    looked_at = {(row.part, row.name) for row in every[night] if not row.left_out and not row.lost}
    still = {(one.part, one.name, one.failure.what) for one in failures}
    last = _failures(every[before[-1]]) if before else []
    return Report(
        night,
        before,
        _totals(every[night]),
        [one for one in failures if one.since == night],
        [one for one in failures if one.since != night],
        [NightFailure(*k, f, since[k, f.what]) for k, f in last if k in looked_at and (*k, f.what) not in still],
        [(row.part, row.name, row.lost) for row in every[night] if row.lost],
        _coverage(every[night]),
        {
            (kind, name): date
            for date in before
            for kind, names in _coverage(every[date]).counts.items()
            for name, worlds in names.items()
            if worlds
        },
        ran_nothing(_announced(every[night]), (row for row in every[night] if row.part != BEGINS)),
    )


def _announced(rows: Iterable[NightRow]) -> list[str]:
    return [*dict.fromkeys(part for row in rows if row.part == BEGINS for part in row.name.split())]


def _failures(rows: Iterable[NightRow]) -> list[tuple[tuple[str, str], Found]]:
    """Returns each failure once, with part and name: a second run of the same night may repeat some."""
    found = {(row.part, row.name, one.what): one for row in rows for one in row.failures}
    return [((part, name), one) for (part, name, _), one in found.items()]


def _since(every: dict[str, list[NightRow]]) -> dict[tuple[tuple[str, str], str], str]:
    since: dict[tuple[tuple[str, str], str], str] = {}
    for date, rows in every.items():
        for key, found in _failures(rows):
            since.setdefault((key, found.what), date)
    return since


def _coverage(rows: Iterable[NightRow]) -> Coverage:
    coverage = Coverage()
    for row in rows:
        coverage.merge(row.reached, row.worlds)
    return coverage


def _totals(rows: Sequence[NightRow]) -> list[PartTotal]:
    totals = []
    for part in dict.fromkeys(row.part for row in rows if row.part != BEGINS):
        own = [row for row in rows if row.part == part]
        totals.append(
            PartTotal(
                part,
                len({row.name for row in own}),
                sum(bool(row.left_out) for row in own),
                sum(row.worlds for row in own),
                sum(row.schedules for row in own),
                len(_failures(own)),
                sum(bool(row.lost) for row in own),
                round(sum(row.seconds for row in own), 1),
            )
        )
    return totals
