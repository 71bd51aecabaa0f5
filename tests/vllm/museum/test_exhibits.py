"""Tests that each variant has an exhibit, that strategies find it as registered, and that its healthy twin is proven.

An exhibit is the smallest scenario that shows a variant, a known mistake. Its healthy twin lacks the mistake.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign.museum import (
    HARMLESS_LIMIT,
    LIMIT,
    SEEDS,
    TWIN_LIMIT,
    exhibit,
    exhibits,
    row,
    seek,
    without_variant,
)
from dpsim.campaign.subject import Subject
from dpsim.checks import matches
from dpsim.checks.finding import Finding
from dpsim.cli.list_text import as_text, scenarios
from dpsim.contract import registry
from dpsim.contract.registry import VariantEntry
from dpsim.explore import STRATEGIES, search
from dpsim.runner import run_scenario
from dpsim.scenario import load_scenario
from tests import ROOT

FOLDER = ROOT / "scenarios" / "museum"
MISSED = {"pp-blocking-metadata": {"fifo"}, "M-ST-11": {"fifo"}, "M-ST-12": {"fifo"}, "M-BT-1": {"fifo", "random"}}
MISSED |= {"eplb-coop-launch": {"fifo", "pct"}}
MISSED |= {name: {"fifo"} for name in ("M-EL-4-alone", "watchdog-query-capture")}
"""By variant: the strategies that do not find it.

`fifo` runs one schedule, in which sends are eager and messages arrive at once, so it misses mistakes in other orders.
The other misses need a late thread, or ranks that communicate in different orders.
"""
VARIANTS = [entry for entry in registry.variants() if entry.make.__module__.startswith("dpsim.vllm.museum.")]
NAMES = {entry.name.lower(): entry.name for entry in VARIANTS}


def test_each_variant_has_one_exhibit_and_no_other_exists() -> None:
    assert sorted(file.stem for file in FOLDER.iterdir()) == sorted(NAMES)
    assert {name: FOLDER / f"{name}.yaml" for name in NAMES} == exhibits()


TWIN = re.compile(r"twin of|^ *twin:", re.IGNORECASE | re.MULTILINE)


def wrong_in(entry: VariantEntry, file: Path) -> list[str]:
    """Returns what an exhibit repeats from the variant's decorator, and what contradicts the decorator."""
    text, scenario = file.read_text(), load_scenario(file)
    expect, klass, harmless = scenario.expect, scenario.expect.klass, entry.expected is None
    rules = {
        "another name": scenario.name != file.stem,
        "no sentence": not scenario.description.endswith("."),
        "another verdict": (expect.verdict, expect.explored) != ("held" if harmless else "violated", None),
        "the class again": klass is not None and klass == entry.expected,
        "another class": klass is not None and not matches(klass, entry.expected or "*"),
        "a class without a reason": re.search(r"\bclass: [^#\n]*$", text, re.MULTILINE) is not None,
        "the form again": scenario.protocol.form is not None,
        "the twin again": TWIN.search(text) is not None,
    }
    return [rule for rule, broken in rules.items() if broken]


@pytest.mark.slow
def test_no_exhibit_repeats_what_its_variant_registers() -> None:
    """Each exhibit expects what its variant is registered with, in one run and in all schedules, or a narrower class.

    A narrower class has a comment with the reason.
    """
    found = {entry.name: wrong_in(entry, FOLDER / f"{entry.name.lower()}.yaml") for entry in VARIANTS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("m-dp-2", "name: m-dp-2", "name: m-dp-3", ["another name"]),
        ("m-dp-2", "use a graph.", "use a graph", ["no sentence"]),
        ("m-dp-2", "{verdict: violated}", "{verdict: held}", ["another verdict"]),
        ("m-dp-2", "{verdict: violated}", "{explored: violated}", ["another verdict"]),
        ("m-dp-4", "verdict: held", "verdict: violated", ["another verdict"]),
        ("m-dp-2", "{verdict: violated}", "{class: REGISTERED} # so", ["the class again"]),
        ("m-dp-2", "{verdict: violated}", "{class: STALE} # so", ["another class"]),
        ("m-pp-1", " # which wrong result", " \n# which wrong result", ["a class without a reason"]),
        ("m-dp-2", ", variant", ", form: source-000, variant", ["the form again"]),
        ("cg-partial", "name:", "# The twin of m-cg-4.\nname:", ["the twin again"]),
    ],
)
def test_an_exhibit_that_repeats_its_registration_is_found(
    name: str, before: str, after: str, said: list[str], tmp_path: Path
) -> None:
    entry, file = registry.variant(NAMES[name]), tmp_path / f"{name}.yaml"
    text = (FOLDER / f"{name}.yaml").read_text()
    assert before in text
    file.write_text(text.replace(before, after.replace("REGISTERED", entry.expected or ""), 1))
    assert wrong_in(entry, file) == said


def test_an_exhibit_of_a_variant_that_is_registered_with_another_class_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    exhibit = load_scenario(FOLDER / "m-dp-1.yaml")
    assert run_scenario(exhibit).unmet is None
    wrong = replace(registry.variant("M-DP-1"), expected="HANG:P2P:*")
    monkeypatch.setitem(registry._variants, "M-DP-1", wrong)
    said = "expected a finding of class HANG:P2P:*, got HANG:COLLECTIVE:MISSING_RANK"
    assert run_scenario(exhibit).unmet == said


SHOWN_QUICKLY = (
    "M-CF-1",
    "M-CF-5",
    "eplb-flag-mismatch",
    "M-EL-1",
    "M-EL-8",
    "M-EL-12",
    "pause-cpu-only",
)
NOT_PROVEN = {
    "M-EL-9": "a group runs until its last engine has heard of a pause, so its schedules have no end",
    "dead-rank-all2all": "proven with 2,032 schedules, in separate tests",
    "dead-columns": "the same world",
    "swapped-counts": "engines tell their counts after each step, and five requests have many orders",
    "startup-no-death-pipe": "a thread may come between any two calls of a worker",
}
"""Healthy twins with too many schedules for a proof, and why."""
RARELY_FOUND = ("eplb-coop-launch",)


def is_shown_quickly(entry: VariantEntry) -> bool:
    """Returns whether the test of a variant is quick.

    Start-up and engine worlds are slow, because all their participants run in each. Microbatches are slow, too, and so
    is a variant that few schedules show.
    """
    crowded = entry.protocol in ("startup", "startup_watched", "dbo", "engine", "dp_survivors")
    return entry.name in SHOWN_QUICKLY or not (crowded or entry.name in RARELY_FOUND)


@pytest.mark.parametrize("entry", [one for one in VARIANTS if is_shown_quickly(one)], ids=lambda entry: entry.name)
def test_dpor_shows_it_and_its_twin_is_proven(entry: VariantEntry) -> None:
    scenario = exhibit(entry, FOLDER / f"{entry.name.lower()}.yaml")
    subject, healthy = Subject.of(scenario, FOLDER), Subject.of(without_variant(scenario), FOLDER)
    twin = seek(healthy, search("portfolio"), "*", TWIN_LIMIT, {})
    assert twin.verdict == ("sampled" if entry.name in NOT_PROVEN else "proven")
    found: dict[str, Finding] = {}
    if entry.expected is None:
        assert seek(subject, search("portfolio"), "*", HARMLESS_LIMIT, found).verdict == "proven"
        assert not found
        return
    assert seek(subject, search("dpor"), entry.expected, LIMIT, found).verdict == "violated"
    assert all(matches(klass, entry.expected) for klass in found)


LONG = {
    *("dbo-offload-unsynced", "dbo-offload", "M-BT-1", "M-BT-8", "ubatch-graph-key", "swapped-counts"),
    *("startup-no-death-pipe", "dead-rank-all2all", "dead-columns"),
}
"""Exhibits that take 16 s to more than a minute, most of it for their twins. `dpsim campaign nightly` has all of them,
too.
"""


def marked_variants() -> list[Any]:
    """Returns the variants. Those of LONG are nightly, and all others slow."""
    marks = {True: pytest.mark.nightly, False: pytest.mark.slow}
    return [pytest.param(entry, marks=marks[entry.name in LONG], id=entry.name) for entry in VARIANTS]


@pytest.mark.parametrize("entry", marked_variants())
def test_each_exhibit_finds_what_its_variant_registers(entry: VariantEntry) -> None:
    shown = row(entry, FOLDER / f"{entry.name.lower()}.yaml")
    assert shown.wrong == []
    assert shown.twin.verdict == ("sampled" if entry.name in NOT_PROVEN else "proven")
    if entry.expected is None:
        assert [one.verdict for one in shown.searches["dpor"]] == ["proven"]
        assert shown.found is None
        return
    assert list(shown.searches) == list(STRATEGIES)
    assert len(shown.searches["random"]) == SEEDS
    missed = {name for name, searches in shown.searches.items() if any(one.verdict != "violated" for one in searches)}
    assert missed == MISSED.get(entry.name, set())
    assert shown.instead == []
    assert shown.found is not None
    assert matches(shown.found.klass, entry.expected)


def test_list_prints_exhibits_apart_from_other_scenarios() -> None:
    text = as_text({"scenarios": scenarios(), "protocols": [], "variants": [], "backends": []})
    first, second, *_ = text.split("\n\n")
    assert "museum/" not in first
    assert second.startswith("museum, ")
    shown = [line.split()[0] for line in second.splitlines()[1:]]
    assert shown.index("museum/m-dp-2") < shown.index("museum/m-dp-10")
    assert len(shown) == len(VARIANTS)
