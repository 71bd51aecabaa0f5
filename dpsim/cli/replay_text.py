"""Prints the findings of a replay, and whether it is the run of the trace, as text and as JSON.

replayed along 3 choices: the same run again
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsim.campaign.results import whole_report
from dpsim.checks.classes import json_of
from dpsim.cli.console import painted
from dpsim.contract.words import printable
from dpsim.diagnose.evidence import NOTHING, Extras, evidence
from dpsim.diagnose.report import report
from dpsim.diagnose.words import in_words
from dpsim.explore.normal_form import folded, is_draw

if TYPE_CHECKING:
    from dpsim.campaign.replay import Replayed

REPAIRED = "after a repair, `dpsim explore FILE` of its scenario shows whether the repair holds"
"""One schedule that no longer fails, or no longer fits, proves no repair."""


def after_repair(token: bool, modules: Sequence[str]) -> str:
    """Returns what shows whether a repair holds. A user who has only a token has no file of its scenario.

    >>> after_repair(False, []) == REPAIRED
    True
    """
    if not token:
        return REPAIRED
    explore = shlex.join(["dpsim", "explore", "FILE", *modules])
    return (
        "after a repair, run the test of the log with --dpsim-replay=TOKEN: it explores all schedules. "
        f"Or save the scenario of the log as FILE, and run `{explore}`"
    )


def as_text(
    replayed: Replayed,
    extras: Extras = NOTHING,
    full: bool = False,
    folder: Path | None = None,
    repaired: str = REPAIRED,
) -> str:
    """Returns the text of a replay. `full`: with all details and the schedule. `folder`: the folder of its results.
    `repaired`: what shows whether a repair holds.
    """
    lines = []
    if replayed.findings:
        told = whole_report(replayed, extras) if full else report(replayed.run, replayed.findings, extras)
        lines = [told, ""]
    for what, words in (("skipped", replayed.skipped), ("added", replayed.added)):
        lines += [f"{what}: {printable(in_words(replayed.run, line))}" for line in folded(words)]
    lines += [printable(line) for line in replayed.stalled]
    lines.append(painted(printable(replayed.summary()), good=replayed.same))
    if replayed.difference is not None:
        lines.append(in_words(replayed.run, str(replayed.difference)))
    lines += [repaired] * (replayed.klass is not None and not replayed.same)
    lines += [f"results: {folder}"] * (folder is not None)
    return "\n".join(lines)


def as_json(replayed: Replayed, extras: Extras = NOTHING, folder: Path | None = None) -> dict[str, Any]:
    """Returns the same as plain data."""
    return {
        "trace": replayed.name,
        "scenario": replayed.scenario.name,
        "backend": replayed.backend,
        "same": replayed.same,
        **json_of(replayed.findings[0].klass if replayed.findings else None),
        "class_in_trace": replayed.klass,
        "steps": None if replayed.noted is None else sum(not is_draw(word) for word in replayed.noted),
        "skipped": replayed.skipped,
        "added": replayed.added,
        "stalled": replayed.stalled,
        **evidence(replayed.run, replayed.findings, extras),
        "difference": None if replayed.difference is None else in_words(replayed.run, str(replayed.difference)),
        **({"results": str(folder)} if folder else {}),
    }
