"""Prints the table of the museum, a collection of known mistakes: what finds each, and after how many schedules.

    entry    class            by      twin                schedules until found
    M-DP-1   HANG:COLLECTIVE  ledger  proven, 1 schedule  1 by every strategy

If strategies need different numbers, a row has a cell for each. `random:3/17` means a median of 3 schedules over
several seeds, and at worst 17. `>200` means that a search reached its limit of 200 without the mistake. `-` means that
no schedule was left, as for first-in-first-out, which has only one. The last line counts the variants that are as
registered, and the lines before it name the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.campaign.museum import SEEDS, Exhibition, Row
from dpsim.checks.classes import class_and_detail, json_of
from dpsim.cli.console import columns
from dpsim.contract.words import counted
from dpsim.explore import STRATEGIES, Exploration

LEGEND = """\
by: the check that found it. twin: the same world without the variant, and how many schedules were
explored. Until found: the median, and after a slash the worst of {seeds} seeds; >{limit}: not within
the limit; -: in no schedule of this strategy.
"""


def as_text(shown: Exhibition) -> str:
    """Returns the table, the totals of each strategy, and the verdict at the end."""
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
    """Returns a line for each variant that is not as registered, and a line that counts those that are."""
    wrong = [f"{row.entry.name} is not as registered: {problem}" for row in shown.rows for problem in row.wrong]
    good = sum(not row.wrong for row in shown.rows)
    return "\n".join([*wrong, f"{good} of {len(shown.rows)} variants are as registered"])


def _cells(row: Row, limit: int) -> tuple[str, str, str, str, str]:
    found, twin = row.found, row.twin
    return (
        row.entry.name,
        class_and_detail(found.klass)[0] if found else "-",
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
    """Returns the median of the searches, and after a slash the worst if it differs."""
    middle, worst = (_schedules(one, limit) for one in _middle_and_worst(searches))
    return middle if middle == worst else f"{middle}/{worst}"


def _total(searches: Sequence[Exploration], limit: int) -> tuple[str, str, str, str]:
    found = sum(one.verdict == "violated" for one in searches)
    middle, worst = _middle_and_worst(searches)
    return str(len(searches)), str(found), _schedules(middle, limit), _schedules(worst, limit)


def _middle_and_worst(searches: Sequence[Exploration]) -> tuple[Exploration, Exploration]:
    """Returns the median and the worst search. A search that found nothing is worse than any other."""
    order = sorted(searches, key=lambda one: (one.verdict != "violated", one.runs))
    return order[(len(order) - 1) // 2], order[-1]


def _schedules(searched: Exploration, limit: int) -> str:
    if searched.verdict == "violated":
        return str(searched.runs)
    return f">{limit}" if searched.runs >= limit else "-"


def as_json(shown: Exhibition) -> dict[str, Any]:
    """Returns the table as plain data. In `schedules`, null as median or worst is a search that found nothing."""
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
        **json_of(row.entry.expected),
        "reason": row.entry.reason or None,
        "found": found.klass if found else None,
        "by": found.check if found else None,
        "instead": row.instead,
        "schedules": {name: _statistics(searches) for name, searches in row.searches.items()},
        "twin": {"verdict": twin.verdict, "schedules": twin.runs, **json_of(broken.klass if broken else None)},
        "wrong": row.wrong,
    }


def _statistics(searches: Sequence[Exploration]) -> dict[str, Any]:
    middle, worst = (one.runs if one.verdict == "violated" else None for one in _middle_and_worst(searches))
    missed = sum(one.verdict != "violated" for one in searches)
    return {"median": middle, "worst": worst, "searches": len(searches), "missed": missed}
