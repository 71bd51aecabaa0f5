"""Commands: what a user types to repeat a failure of `holds`, with pytest and without; and the text of the failure.

    replay: pytest tests/test_mine.py::test_ranks_agree --dpsim-replay=dpsim1.tjTa...
    step by step: dpsim replay dpsim1.tjTa... --module tests/test_mine.py --step

A protocol that an entry point registers needs no `--module`.
"""

from __future__ import annotations

import shlex
import sys
from itertools import chain

from dpsim.campaign.drawn import running_test
from dpsim.campaign.explored import Explored
from dpsim.campaign.token import MOST_SCHEDULES, Token, beyond
from dpsim.checks.expected import HELD
from dpsim.scenario import Scenario, excerpt
from dpsim.scenario.modules import names_to_import
from dpsim.scenario.params.files import files_of


def command_of(scenario: Scenario, explored: Explored, strategy: str, schedules: int) -> tuple[str, str]:
    """Returns the command that repeats the failure: of pytest in a test, else of dpsim; or why there is none."""
    shown = explored.shown[0]
    token = Token(
        scenario, tuple(shown.schedule), shown.failure.problem.klass, strategy, min(schedules, MOST_SCHEDULES)
    )
    word = str(token) or str(token._replace(steps=tuple(shown.failure.normal))) or str(token._replace(steps=()))
    test = running_test()
    if not word:
        return "", f"too large for a token ({beyond(scenario) or 'the word would be too long'})"
    if test and "dpsim.pytest_plugin" in sys.modules:
        return f"pytest {shlex.quote(test)} --dpsim-replay={word}", ""
    return shlex.join(_outside(scenario, word)), ""


def _outside(scenario: Scenario, word: str) -> list[str]:
    modules = names_to_import(scenario.protocol.name, scenario.protocol.variant)
    named = [("--file", name) for name in files_of(getattr(scenario.protocol, "params", None))]
    named += [("--module", name) for name in modules]
    return ["dpsim", "replay", word, *chain.from_iterable(named)]


def step_by_step(scenario: Scenario, replay: str) -> str:
    """Returns the command that prints each choice of a run; empty unless `replay` is a command of pytest."""
    word = replay.partition(" --dpsim-replay=")[2]
    return shlex.join([*_outside(scenario, word), "--step"]) if word else ""


def failure_text(report: str, scenario: Scenario, unmet: str, saved: str = "") -> str:
    """Returns the text of a failure: the report, the expectation if it is not "held", and the scenario."""
    expected = scenario.expected_of_all
    lines = [report, *[f"expected: {expected}; NOT met: {unmet}"] * (expected != HELD), ""]
    return "\n".join([*lines, excerpt(scenario, f"scenario{saved}:")])
