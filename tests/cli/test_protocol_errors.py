"""Tests mistakes in a protocol's code outside of a run: the command prints one line with the source line, and exits
with 2.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsim.contract import registry
from tests.cli.commands import Answer, dpsim_, write
from tests.cli.protocols import scenario

MODULE = """
import numpy as np
from dpsim.contract.registry import register_protocol
from tests.sized import SizedProgram as Program
@register_protocol("t_own")
class Own(Program):
    probes = ()

    def prepare(self, args):
        return 1

    def figures(self, prepared, journals):
        return {}

    async def run(self, rank, prepared):
        rank.stream("main").record()
"""

Own = Callable[[str, str, str], Answer]
DIVIDES = "1 // 0"
STACKS = "np.stack([np.zeros(1), np.zeros(2)])"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Own:
    """Returns a function that runs a command about a module with one line replaced. The fixture removes the
    registration later.
    """
    registry.protocols()
    monkeypatch.setattr(registry, "_protocols", dict(registry._protocols))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "t_own", sys)
    monkeypatch.delitem(sys.modules, "t_own")

    def run(line: str, by: str, command: str) -> Answer:
        assert not line or MODULE.count(line) == 1
        write(Path("t_own.py"), MODULE.replace(line, by) if line else MODULE)
        write(Path("x.yaml"), scenario("t_own"))
        return dpsim_(command, "x.yaml", "--module", "t_own")

    return run


@pytest.mark.parametrize("command", ["run", "explore"])
def test_without_a_mistake_it_holds(own: Own, command: str) -> None:
    assert own("", "", command).code == 0


@pytest.mark.parametrize(
    ("line", "by", "said"),
    [
        ("probes = ()", "probes =", r"SyntaxError: invalid syntax \(t_own.py, line 7\)"),
        ("probes = ()", STACKS, r"ValueError: all input arrays must have the same shape, at t_own.py:7"),
        (
            "probes = ()",
            "import no_such_module",
            r"ModuleNotFoundError: No module named 'no_such_module', at t_own.py:7",
        ),
        ("probes = ()", "raise SystemExit(3)", r"SystemExit: 3, at t_own.py:7"),
        ("async def run", "def run", r"TypeError: Own.run is no coroutine .*; write `async def run\(.*, at t_own.py:6"),
        ("async def run", "async def Run", r"TypeError: Own has no run; write .*, at t_own.py:5"),
        ("(Program)", "", r"TypeError: Own is no class derived from Program; .*, at t_own.py:5"),
        ('("t_own")', "", r"TypeError: register_protocol needs a name: .*, at t_own.py:5"),
    ],
)
def test_a_module_that_cannot_be_imported(own: Own, line: str, by: str, said: str) -> None:
    answer = own(line, by, "run")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert re.fullmatch(f"dpsim: cannot import the module t_own: {said}\n", answer.err)


@pytest.mark.parametrize(
    ("line", "by", "command", "said"),
    [
        ("return 1", DIVIDES, "run", r"ZeroDivisionError: .*, at t_own.py:10"),
        ("return 1", DIVIDES, "explore", r"ZeroDivisionError: .*, at t_own.py:10"),
        ("return {}", STACKS, "run", r"ValueError: all input arrays must have the same shape, at t_own.py:13"),
    ],
)
def test_an_exception_of_a_protocol_method_is_one_line(own: Own, line: str, by: str, command: str, said: str) -> None:
    answer = own(line, by, command)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert re.fullmatch(f"dpsim: the protocol raised {said}\n", answer.err)


@pytest.mark.parametrize("command", ["run", "explore"])
@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            "groups: return [('g', 'host', [(0, 9)])]",
            "World.communicators: g has members (0, 9); there are 3 ranks and",
        ),
        ("groups: return [('g', 'device', [(0, 2)])]", "g has members (0, 2); there are 2 ranks, as services have no"),
        ("groups: return [('g', 'gpu', [(0, 1)])]", "g has domain 'gpu'; expected host or device"),
        ("groups: return [('g', [(0, 1)])]", "groups gives [('g', [(0, 1)])]; expected tuples such as"),
        ("groups: return [('g', 'host', [('a',)])]", "groups gives [('g', 'host', [('a',)])]; expected tuples such as"),
        ("nodes: return (0,)", "World.nodes: 1 nodes for 3 ranks and services"),
        (
            "services: return 'monitor'",
            "Own.services gives 'monitor'; expected a tuple of names, such as ('coordinator'",
        ),
    ],
)
def test_methods_that_describe_no_world_are_bad_input(own: Own, method: str, command: str, said: str) -> None:
    name, _, body = method.partition(": ")
    services = "" if name == "services" else "    def services(self, prepared): return ('desk',)\n\n"
    by = f"{services}    def {name}(self, prepared): {body}\n\n    def figures"
    answer = own("    def figures", by, command)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
