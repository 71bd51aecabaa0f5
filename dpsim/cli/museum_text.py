"""The table of `dpsim.campaign.museum` as text and as one JSON object: what catches what, and after how many schedules.

    entry    class                         by      twin                schedules until found
    M-DP-1   HANG:COLLECTIVE:MISSING_RANK  ledger  proven, 1 schedule  1 by every strategy

Where strategies differ, each is named with the median of its searches and, after a slash, the worst, `random:3/17`. A
miss stays in the table, and counts as worse than any number. `>200` means that the limit ended the search. `-` means
that the strategy had no schedule left, as first-in-first-out after its only one. The last line says how many variants
are as they are registered; before it, each that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.campaign.museum import SEEDS, Exhibition, Row
from dpsim.cli.console import columns
from dpsim.contract.words import counted
from dpsim.explore import STRATEGIES, Exploration

LEGEND = """\
twin: the same world without the variant, and how many schedules were explored. Until found: the
median, and after a slash the worst of {seeds} seeds; >{limit}: not within the limit; -: not in any there are.
"""


def as_text(shown: Exhibition) -> str:
    """The table, what each strategy did in all, and the verdict last."""
    limit = shown.limit
    head = ("entry", "class", "by", "twin", "schedules until found")
    lines = columns([head, *(_cells(row, limit) for row in shown.rows)])
    sought = [row for row in shown.rows if row.entry.expected is not None]
    if sought:
        total = [(name, [one for row in sought for one in row.searches[name]]) for name in STRATEGIES]
        head_of_total = ("strategy", "searches", "found", "median schedules", "worst schedules")
        lines += ["", *columns([head_of_total, *((name, *_total(searches, limit)) for name, searches in total)])]
        lines += ["", *LEGEND.format(seeds=SEEDS, limit=limit).splitlines()]
    harmless = [(f"{row.entry.name}:", row.entry.reason) for row in shown.rows if row.entry.expected is None]
    lines += ["", "registered to hold, since", *columns(harmless)] if harmless else []
    lines += ["", f"without an exhibit: {', '.join(shown.without)}"] if shown.without else []
    lines += ["", f"not reached in time: {', '.join(shown.left)}"] if shown.left else []
    return "\n".join([*lines, "", verdict(shown)])


def verdict(shown: Exhibition) -> str:
    """What is not as registered, and last, how many variants are."""
    wrong = [f"{row.entry.name} is not as registered: {problem}" for row in shown.rows for problem in row.wrong]
    good = sum(not row.wrong for row in shown.rows)
    return "\n".join([*wrong, f"{good} of {len(shown.rows)} variants are as registered"])


def _cells(row: Row, limit: int) -> tuple[str, str, str, str, str]:
    found, twin = row.found, row.twin
    return (
        row.entry.name,
        found.klass if found else "-",
        found.check if found else "-",
        _explored(twin),
        _needed(row, limit),
    )


def _explored(search: Exploration) -> str:
    return f"{search.verdict}, {counted(search.runs, 'schedule')}"


def _needed(row: Row, limit: int) -> str:
    if row.entry.expected is None:
        (searched,) = row.searches["dpor"]
        return _explored(searched) + ("" if row.found else ", nothing to find")
    cells = {name: cell(searches, limit) for name, searches in row.searches.items()}
    texts = list(cells.values())
    same = texts.count(texts[0]) == len(texts)
    also = f"; also {', '.join(row.instead)}" if row.instead else ""
    return (f"{texts[0]} by every strategy" if same else " ".join(map(":".join, cells.items()))) + also


def cell(searches: Sequence[Exploration], limit: int) -> str:
    """The median of some searches, and after a slash the worst if it is another."""
    middle, worst = (_schedules(one, limit) for one in _middle_and_worst(searches))
    return middle if middle == worst else f"{middle}/{worst}"


def _total(searches: Sequence[Exploration], limit: int) -> tuple[str, str, str, str]:
    found = sum(one.verdict == "violated" for one in searches)
    middle, worst = _middle_and_worst(searches)
    return str(len(searches)), str(found), _schedules(middle, limit), _schedules(worst, limit)


def _middle_and_worst(searches: Sequence[Exploration]) -> tuple[Exploration, Exploration]:
    """A miss is worse than any that found it."""
    order = sorted(searches, key=lambda one: (one.verdict != "violated", one.runs))
    return order[(len(order) - 1) // 2], order[-1]


def _schedules(searched: Exploration, limit: int) -> str:
    if searched.verdict == "violated":
        return str(searched.runs)
    return f">{limit}" if searched.runs >= limit else "-"


def as_json(shown: Exhibition) -> dict[str, Any]:
    """The same as plain data. In `schedules`, a median or worst of null is a miss."""
    return {
        "limit": shown.limit,
        "entries": [_entry(row) for row in shown.rows],
        "without_exhibit": shown.without,
        "not_reached": shown.left,
        "as_registered": shown.as_registered,
    }


def _entry(row: Row) -> dict[str, Any]:
    found, twin, broken = row.found, row.twin, row.broken
    return {
        "id": row.entry.name,
        "exhibit": str(row.file),
        "class": row.entry.expected,
        "reason": row.entry.reason or None,
        "found": found.klass if found else None,
        "by": found.check if found else None,
        "instead": row.instead,
        "schedules": {name: _statistics(searches) for name, searches in row.searches.items()},
        "twin": {"verdict": twin.verdict, "schedules": twin.runs, "class": broken.klass if broken else None},
        "wrong": row.wrong,
    }


def _statistics(searches: Sequence[Exploration]) -> dict[str, Any]:
    middle, worst = (one.runs if one.verdict == "violated" else None for one in _middle_and_worst(searches))
    missed = sum(one.verdict != "violated" for one in searches)
    return {"median": middle, "worst": worst, "searches": len(searches), "missed": missed}
