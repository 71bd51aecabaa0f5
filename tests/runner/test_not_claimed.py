"""A backend that does not tell where memory lies claims nothing of its reuse, and is not blamed for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from dpsim import runner
from dpsim.cli.app import app
from dpsim.contract.ops import ALLOC_PLACE, KIND, RawRecord
from dpsim.contract.world import Progress, Run, World
from dpsim.runner import Result, run_scenario
from dpsim.scenario import load_scenario, scenario_from
from dpsim.scenario.locate import scenario_path
from dpsim.sim.backend import SimBackend

REUSE, SAID = "RACE:REUSED_IN_FLIGHT", "not claimed on placeless, which does not tell where memory lies"


def without_place(raw: RawRecord) -> RawRecord:
    return (*raw[:ALLOC_PLACE], None, *raw[ALLOC_PLACE + 1 :])


class Placeless(SimBackend):
    """The simulation, but it keeps to itself where memory lies, as gloo does."""

    name = "placeless"

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        run = super().run(world, program, args, progress)
        for journal in run.journals:
            journal[:] = [without_place(raw) if raw[KIND] == "alloc" else raw for raw in journal]
        return run


@pytest.fixture(autouse=True)
def placeless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_backends", {"placeless": Placeless()})


def play(name: str, backend: str, expect: dict[str, str] | None = None) -> Result:
    scenario = load_scenario(scenario_path(f"museum/{name}"))
    return run_scenario(scenario if expect is None else scenario_from({**dict(scenario), "expect": expect}), backend)


def test_what_cannot_be_shown_is_neither_met_nor_not() -> None:
    there, here = play("m-pp-10", "sim"), play("m-pp-10", "placeless")
    assert (there.met, there.unclaimed) == (True, None)
    assert (here.met, here.unmet, here.unclaimed) == (False, None, f"{REUSE} is {SAID}")
    assert here.scenario.expect.klass is None, "the class is that with which the variant is registered"


@pytest.mark.parametrize("klass", ["RACE:REUSED_*", "STALE:REUSED_BLOCK", "STALE:REUSED*"])
def test_patterns_of_such_classes_alone(klass: str) -> None:
    assert play("m-pp-10", "placeless", {"class": klass}).unclaimed == f"{klass} is {SAID}"


@pytest.mark.parametrize("expect", [{"class": "RACE"}, {"class": "STALE:*"}, {"class": "*"}])
def test_what_could_have_been_shown_otherwise_is_not_met(expect: dict[str, str]) -> None:
    assert play("m-pp-10", "placeless", expect).unmet == "expected violated, came held"


def test_another_finding_is_not_excused() -> None:
    result = play("m-pp-8", "placeless", {"class": REUSE})
    assert result.unclaimed is None
    assert result.unmet == f"expected a finding of class {REUSE}, came RACE:BUFFER"


def test_said_on_the_command_line() -> None:
    words = ["run", "museum/m-pp-10", "--backend", "placeless"]
    text = CliRunner().invoke(app, words)
    assert (text.exit_code, text.stdout.splitlines()[-1]) == (
        3,
        f"expected: violated, {REUSE}; neither met nor not: {REUSE} is {SAID}",
    )
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (found["met"], found["unmet"], found["unclaimed"]) == (False, None, f"{REUSE} is {SAID}")
