"""Mistakes: the part of a night that runs the museum. Every strategy searches for each known bug, one row for each.

It is a failure if the searches do not find a bug as registered, or if the same scenario without the bug fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dpsim.campaign import museum
from dpsim.campaign.coverage import Coverage
from dpsim.campaign.nights.rows import Found, NightRow
from dpsim.campaign.nights.sizes import Size
from dpsim.contract.registry import VariantEntry
from dpsim.contract.schedule import OutOfTime
from dpsim.scenario import ScenarioError

CUT = "its time was up before its searches ended"


def visits(
    entries: Sequence[VariantEntry], files: Mapping[str, Path], size: Size, expired: Callable[[], bool]
) -> Iterator[NightRow]:
    """Yields a row for one in `size.visited` variants (known bugs).

    A variant without an exhibit is left out, and an invalid exhibit is a failure. Raises OutOfTime once the time has
    `expired`. The variant whose search this ends has a row that says so.
    """
    for entry in entries[:: size.visited]:
        file, start, coverage = files.get(entry.name.lower()), time.monotonic(), Coverage()
        if file is None:
            yield NightRow(part="museum", name=entry.name, left_out="it has no exhibit")
            continue
        try:
            shown = museum.row(entry, file, size.museum_schedules, expired)
        except ScenarioError as error:
            yield NightRow(part="museum", name=entry.name, failures=(Found(what=str(error)),))
            continue
        except OutOfTime:
            spent = round(time.monotonic() - start, 2)
            yield NightRow(part="museum", name=entry.name, seconds=spent, left_out=CUT)
            raise
        variant, twin = shown.subjects
        searches = [one for some in shown.searches.values() for one in some]
        coverage.add(variant, *searches)
        coverage.add(twin, shown.twin)
        yield NightRow(
            part="museum",
            name=entry.name,
            verdict="not as registered" if shown.wrong else "as registered",
            worlds=coverage.worlds,
            schedules=sum(one.runs for one in [*searches, shown.twin]),
            seconds=round(time.monotonic() - start, 2),
            failures=tuple(
                Found(what=wrong, message=wrong, show=f"dpsim museum --only {entry.name}") for wrong in shown.wrong
            ),
            reached=coverage.counts,
        )
