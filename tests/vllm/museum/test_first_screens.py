"""Tests the report of each exhibit: its first six lines name the culprit, or both sides if no run can show the culprit.

The first screen has at most ten lines of 120 columns, and the full report at most 160 lines. A quick test covers one
exhibit in nine, and a slow test covers all.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpsim.campaign.explored import explore_subject
from dpsim.campaign.museum import exhibit
from dpsim.campaign.subject import Subject
from dpsim.checks.classes import class_and_detail
from dpsim.cli import run_text
from dpsim.contract import registry
from dpsim.contract.registry import VariantEntry
from dpsim.diagnose import first_screen
from dpsim.diagnose.evidence import Extras
from dpsim.diagnose.variants import extras_of
from dpsim.runner import Result, run_scenario
from tests import ROOT

FOLDER = ROOT / "scenarios" / "museum"
VARIANTS = [entry for entry in registry.variants() if entry.make.__module__.startswith("dpsim.vllm.museum.")]
HARMFUL = [entry for entry in VARIANTS if entry.expected is not None]
QUICK = HARMFUL[::9]


def shown(entry: VariantEntry) -> Result:
    """Runs an exhibit. If that run has no findings, explores and returns the first failing schedule's run."""
    file = FOLDER / f"{entry.name.lower()}.yaml"
    scenario = exhibit(entry, file)
    result = run_scenario(scenario, base=file.parent)
    if not result.findings:
        found = explore_subject(Subject.of(scenario, file.parent), schedules=200)
        assert found.shown[0].run is not None, entry.name
        result.run, result.findings = found.shown[0].run, list(found.findings)
    return result


def problems(entry: VariantEntry) -> list[str]:
    """Returns the rules that a report breaks."""
    result = shown(entry)
    extras = extras_of(entry.name, f"dpsim run museum/{entry.name.lower()} --full")
    short, _, _ = run_text.as_text(result, extras, None, None).partition("\n\n")
    whole = run_text.as_text(result, extras, None, None, full=True)
    lines, primary = short.splitlines(), result.findings[0]
    six = "\n".join(lines[:6])
    titles = [line for line in whole.splitlines() if line.endswith(":") and not line.startswith(" ")]
    rules = {
        "more than ten lines": len(lines) > 10,
        "wider than 120 columns": max(map(len, lines)) > 120,
        "the whole has more than 160 lines": len(whole.splitlines()) > 160,
        "no class": not lines[0].startswith(f"VIOLATED  {class_and_detail(primary.klass)[0]}  "),
        "no line in six lines": primary.culprit is not None and primary.culprit.where not in six,
        "one side in six lines": primary.culprit is None and _sides(six) < 2,
        "a step that is none": re.search(r"step -1|1000000", whole) is not None,
        "a title twice": len(titles) != len({*titles}),
        "no file of the variant": f"{entry.name} is " not in short,
        "nothing to type": not lines[-1].startswith("next      dpsim run "),
    }
    return [f"{entry.name}: {rule}" for rule, broken in rules.items() if broken]


def _sides(text: str) -> int:
    """Returns how many ranks, services, threads and workers a text names."""
    return len({*re.findall(r"ranks? \d+|thread \S+|worker \d+|engine\.\d+|frontend(?:\.\d+)?|coordinator", text)})


@pytest.mark.parametrize("entry", QUICK, ids=lambda entry: entry.name)
def test_the_first_screen_of_one_exhibit_in_nine_keeps_its_limits(entry: VariantEntry) -> None:
    assert problems(entry) == []


@pytest.mark.slow
def test_the_first_screen_of_every_exhibit_keeps_its_limits() -> None:
    assert [problem for entry in HARMFUL for problem in problems(entry)] == []


def test_a_first_screen_that_is_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faulty twin: without limits on lines and columns, the report of M-BT-10 breaks both rules."""
    entry = registry.variant("M-BT-10")
    monkeypatch.setattr(first_screen, "LINES", 99)
    monkeypatch.setattr(first_screen, "folded", lambda text, *limits: [text * 2] * 6)
    found = problems(entry)
    assert f"{entry.name}: more than ten lines" in found
    assert f"{entry.name}: wider than 120 columns" in found


def test_a_report_without_its_variant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.extras_of", lambda *of: Extras())
    assert problems(registry.variant("M-DP-1")) == ["M-DP-1: no file of the variant", "M-DP-1: nothing to type"]


def test_the_folder_is_that_of_the_museum() -> None:
    assert {entry.name.lower() for entry in VARIANTS} == {file.stem for file in Path(FOLDER).iterdir()}
