"""Describes one variant of the museum: its mistake, the scenario that shows it, and the finding that must catch it.

$ dpsim museum M-DP-1
M-DP-1
mistake   The early exit without scheduled tokens forgets the other ranks. ...
shown by  An idle rank skips the step, and its peers wait for it in the agreement.
made from dp_batch, form source-000
caught as HANG:COLLECTIVE:MISSING_RANK
source    dpsim.vllm.museum.batch.EarlyExit
run it    dpsim run museum/m-dp-1
explore   dpsim museum --only M-DP-1
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsim.campaign.museum import FOLDER, exhibit
from dpsim.checks.classes import json_of
from dpsim.cli.console import columns
from dpsim.cli.list_text import NOT_CAUGHT
from dpsim.contract.registry import VariantEntry
from dpsim.scenario.locate import bundled_scenarios, scenario_path


def cards(entries: Sequence[VariantEntry], files: Mapping[str, Path], options: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a card for each variant, as plain data. `files`: its exhibit by name in lower case. `options`: of
    suggested commands. Raises ScenarioError for an exhibit that is unreadable, or runs another variant.
    """
    return [_card(entry, files.get(entry.name.lower()), "".join(f" {one}" for one in options)) for entry in entries]


def _card(entry: VariantEntry, file: Path | None, more: str) -> dict[str, Any]:
    shown = None if file is None else exhibit(entry, file)
    folder = "" if file is None or _bundled(file) else f" --exhibits {shlex.quote(str(file.parent))}"
    return {
        "id": entry.name,
        "mistake": " ".join((inspect.getdoc(entry.make) or "").split()),
        "exhibit": None if file is None else shlex.quote(str(file)),
        "shown_by": None if shown is None else " ".join(shown.description.split()),
        "protocol": entry.protocol,
        "form": entry.form,
        "twin": entry.twin or None,
        **json_of(entry.expected),
        "reason": entry.reason or None,
        "source": f"{entry.make.__module__}.{entry.make.__qualname__}",
        "run": None if file is None else f"dpsim run {_named(file)}{more}",
        "explore": None if file is None else f"dpsim museum --only {entry.name}{folder}{more}",
    }


def _bundled(file: Path) -> bool:
    name = FOLDER + file.stem
    return name in bundled_scenarios() and scenario_path(f"{name}.yaml") == file


def _named(file: Path) -> str:
    return FOLDER + file.stem if _bundled(file) else shlex.quote(str(file))


def as_text(shown: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text of the cards, one below the other."""
    return "\n\n".join("\n".join([card["id"], *columns(_rows(card))]) for card in shown)


def _rows(card: Mapping[str, Any]) -> list[tuple[str, str]]:
    without = f"no exhibit: a scenario {card['id'].lower()}.yaml in a folder that --exhibits names"
    rows = [
        ("mistake" if card["class"] else "change", card["mistake"]),
        ("shown by", without if card["exhibit"] is None else card["shown_by"]),
        ("made from", f"{card['protocol']}, form {card['form']}" + (f", by {card['twin']}" if card["twin"] else "")),
        ("caught as", ":".join(filter(None, (card["class"], card["detail"]))))
        if card["class"]
        else ("not caught", f"{NOT_CAUGHT}: {card['reason']}"),
        ("source", card["source"]),
    ]
    return rows if card["exhibit"] is None else [*rows, ("run it", card["run"]), ("explore", card["explore"])]
