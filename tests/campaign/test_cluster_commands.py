"""Tests the commands that explore on a cluster (`--cluster`): sets of worlds, bounds and `holds`. Other commands refuse
the option.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpsim.campaign.properties import DoesNotHold
from dpsim.campaign.ray_cluster import NoCluster
from dpsim.campaign.subject import Subject
from dpsim.scenario import load_scenario
from dpsim.testing import holds
from tests.campaign import bound_programs, swarm_programs  # noqa: F401  # register their protocols
from tests.campaign.pretended_ray import on
from tests.cli.commands import dpsim_, write
from tests.cli.protocols import scenario
from tests.sized import sized_scenario

pytestmark = pytest.mark.runs_once

SETS = ("--module", "tests.cli.protocols")
BOUNDS = ("--module", "tests.campaign.bound_programs")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("set.yaml"), scenario("t_look", 2, ""))
    write(Path("late.yaml"), sized_scenario("t_misses", 3))
    write(Path("bounded.yaml"), sized_scenario("t_misses", 3, "limits: {late_deliveries: 1}\n"))


COMMANDS = [
    ("explore", "set.yaml", *SETS, "--all-up-to", "ranks=2"),
    ("explore", "set.yaml", *SETS, "--swarm", "4:delay"),
    ("explore", "late.yaml", *BOUNDS, "--late-deliveries", "1"),
    ("explore", "bounded.yaml", *BOUNDS),
]


def said(answer: Any) -> list[str]:
    """Returns the output without how many worlds' ranks dpsim ran alone, because a clock decides their number."""
    printed = re.sub("; ranks share no Python object: checked in [^;\n]*", "", answer.out)
    return [line for line in printed.splitlines() if not line.startswith("alone ")]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_cluster_finds_the_same(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster prints the same result as one process, even if it loses tasks. A second run resumes from the
    kept work.
    """
    here = dpsim_(*words)
    assert here.code == 0
    ray = on(monkeypatch, frozenset({1, 3}))
    there = dpsim_(*words, "--cluster", "auto", "--work", "night")
    assert (there.code, said(there), ray.tasks > 2) == (0, said(here), True), there.err
    again = on(monkeypatch)
    assert said(dpsim_(*words, "--cluster", "auto", "--resume", "night")) == said(here)
    assert again.tasks == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("museum", "M-DP-1", "--cluster", "auto"), "--cluster: a NAME explores nothing; leave one of them out"),
        (("museum", "--cluster", "http://x"), "--cluster: 'http://x' is no cluster; expected auto or ray://HOST:PORT"),
        (("museum", "--work", "night"), "No such option: --work"),
        (("museum", "--late-deliveries", "1"), "No such option: --late-deliveries"),
        (("explore", "bounded.yaml", *BOUNDS, "--swarm", "3"), "not together with --swarm or --all-up-to"),
    ],
)
def test_options_that_no_cluster_can_serve_are_refused(words: tuple[str, ...], message: str) -> None:
    answer = dpsim_(*words)
    assert (answer.code, answer.out, message in answer.err) == (2, "", True), answer.err


def test_holds_keeps_to_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world breaks if two messages are late. With the scenario's bound of one late message, `holds` returns
    "bounded", here and on a cluster. Without a bound it fails.
    """
    bounded, late = load_scenario(Path("bounded.yaml")), load_scenario(Path("late.yaml"))
    assert holds(bounded).verdict == "bounded"
    with pytest.raises(DoesNotHold):
        holds(late)
    with pytest.raises(ValueError, match="its limits bound a search of all schedules, and pct samples"):
        holds(bounded, strategy="pct")
    ray = on(monkeypatch)
    assert (holds(bounded, cluster="auto").verdict, ray.tasks > 1) == ("bounded", True)
    with pytest.raises(DoesNotHold):
        holds(late, cluster="auto")
    with pytest.raises(NoCluster, match="a Subject cannot travel to other machines; give the scenario instead"):
        holds(Subject.of(late), cluster="auto")
