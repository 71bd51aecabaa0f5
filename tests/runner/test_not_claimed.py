"""Tests of expected findings about the reuse of memory, on a backend that does not record addresses of buffers.

A backend without addresses cannot show such a finding. So the run reports that dpsim cannot check the expectation, and
does not count the expectation as failed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from dpsim import runner
from dpsim.cli.app import app
from dpsim.contract.interface import Buffer, Rank, Stream
from dpsim.contract.ops import ALLOC_PLACE, KIND, RawRecord
from dpsim.contract.registry import register_protocol, register_variant
from dpsim.contract.world import Progress, Run, World
from dpsim.runner import Result, run_scenario
from dpsim.scenario import scenario_from
from dpsim.sim.backend import SimBackend
from tests.programs import set_to, touch
from tests.sized import SizedProgram

REUSE, SAID = "RACE:REUSED_IN_FLIGHT", "not claimed on placeless, which does not tell where memory lies"


VIOLATED = {"verdict": "violated"}


def of(variant: str) -> str:
    return f"name: x\nprotocol: {{name: t_lends, variant: {variant}}}\n"


@register_protocol("t_lends")
class Lends(SizedProgram):
    """A rank lends a buffer to a second stream, and takes it back after that stream has read it."""

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        main, side = rank.stream("main"), rank.stream("side")
        lent = main.alloc(4, "int32", "lent")
        main.launch("fill", set_to, writes=[lent], args=(1,))
        side.wait_stream(main)
        side.launch("reads", touch, reads=[lent], cost=1_000_000)
        self.take_back(main, side, lent)

    def take_back(self, main: Stream, side: Stream, lent: Buffer) -> None:
        main.wait_stream(side)
        lent.free()
        main.launch("fills", set_to, writes=[main.alloc(4, "int32", "next")], args=(2,))


@register_variant("T-REUSES", protocol="t_lends", expected=REUSE)
class Reuses(Lends):
    """The faulty variant: the rank frees the buffer while the second stream may still read it. So the allocator can
    place the next buffer at the same address.
    """

    def take_back(self, main: Stream, side: Stream, lent: Buffer) -> None:
        lent.free()
        main.launch("fills", set_to, writes=[main.alloc(4, "int32", "next")], args=(2,))


@register_variant("T-RACES", protocol="t_lends", expected="RACE:BUFFER")
class Races(Lends):
    """The faulty variant: the rank writes the buffer again while the second stream may still read it."""

    def take_back(self, main: Stream, side: Stream, lent: Buffer) -> None:
        main.launch("fills", set_to, writes=[lent], args=(2,))


def test_the_protocol_without_a_variant_holds() -> None:
    assert run_scenario(scenario_from({"name": "x", "protocol": "t_lends"}), "placeless").met


def without_place(raw: RawRecord) -> RawRecord:
    return (*raw[:ALLOC_PLACE], None, *raw[ALLOC_PLACE + 1 :])


class Placeless(SimBackend):
    """The simulation without the addresses of buffers in its journals, as gloo records none."""

    name = "placeless"

    def run(self, world: World, program: str, args: Any, progress: Progress | None = None) -> Run:
        run = super().run(world, program, args, progress)
        for journal in run.journals:
            journal[:] = [without_place(raw) if raw[KIND] == "alloc" else raw for raw in journal]
        return run


@pytest.fixture(autouse=True)
def placeless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_backends", {"placeless": Placeless()})


def play(variant: str, backend: str, expect: dict[str, str] | None = None) -> Result:
    return run_scenario(scenario_from({**yaml.safe_load(of(variant)), "expect": expect or VIOLATED}), backend)


def test_a_finding_that_a_backend_cannot_show_is_neither_met_nor_unmet() -> None:
    there, here = play("T-REUSES", "sim"), play("T-REUSES", "placeless")
    assert (there.met, there.unclaimed) == (True, None)
    assert (here.met, here.unmet, here.unclaimed) == (False, None, f"{REUSE} is {SAID}")
    assert here.scenario.expect.klass is None, "the scenario itself expects no class; the variant's registration does"


@pytest.mark.parametrize("klass", ["RACE:REUSED_*", "STALE:REUSED_BLOCK", "STALE:REUSED*"])
def test_patterns_of_such_classes_alone(klass: str) -> None:
    assert play("T-REUSES", "placeless", {"class": klass}).unclaimed == f"{klass} is {SAID}"


@pytest.mark.parametrize("expect", [{"class": "RACE"}, {"class": "STALE:*"}, {"class": "*"}])
def test_a_wider_pattern_that_a_backend_could_show_is_not_met(expect: dict[str, str]) -> None:
    assert play("T-REUSES", "placeless", expect).unmet == "expected violated, got held"


def test_another_finding_is_not_excused() -> None:
    result = play("T-RACES", "placeless", {"class": REUSE})
    assert result.unclaimed is None
    assert result.unmet == f"expected a finding of class {REUSE}, got RACE:BUFFER"


def test_the_command_names_a_finding_that_the_backend_cannot_show(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(of("T-REUSES") + "expect: {verdict: violated}\n")
    words = ["run", str(file), "--backend", "placeless"]
    text = CliRunner().invoke(app, words)
    assert (text.exit_code, text.stdout.splitlines()[-1]) == (
        3,
        f"expected: violated, {REUSE}; neither met nor not: {REUSE} is {SAID}",
    )
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (found["met"], found["unmet"], found["unclaimed"]) == (False, None, f"{REUSE} is {SAID}")
