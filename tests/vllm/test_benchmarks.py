"""Tests that `make bench` fails if a step of a rank needs one more call, and that recorded floors only decrease."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from benchmarks import counts, instructions, program
from benchmarks import floors as lowest
from benchmarks.__main__ import compared
from benchmarks.baseline import host_ns
from benchmarks.counts import Calls, calls, rank_step
from benchmarks.floors import above, below, floors, lower

DP, PP = 2, 2


def counted() -> Calls:
    """Counts the calls of a few ranks and steps: a run of 6 steps minus a run of 2."""
    return rank_step(lambda steps: program.simulate(DP, PP, steps), DP * PP, few=2, many=6)


def figures(found: Calls) -> dict[str, float]:
    return {"python calls a rank-step": found.python, "calls a rank-step": found.all}


def test_calls_are_counted() -> None:
    def inner() -> int:
        return max(1, 2)

    assert calls(lambda: (inner(), inner())) == Calls(python=3, all=5)


@pytest.mark.runs_once  # if the suite repeats the run, its calls count twice
@pytest.mark.slow
def test_one_call_more_a_rank_step_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    healthy = counted()
    assert counted() == healthy
    lower(figures(healthy), tmp_path / "floors.json")
    known = floors(tmp_path / "floors.json")
    assert compared(figures(healthy), known) == 0

    monkeypatch.setattr(program, "host_ns", lambda replica, step: host_ns(replica, step))
    slower = counted()
    assert slower == Calls(healthy.python + 1, healthy.all + 1)
    assert [line.partition(":")[0] for line in above(figures(slower), known)] == list(known)
    assert compared(figures(slower), known) == 1


def test_one_call_is_more_than_the_tolerance_of_the_floors() -> None:
    """One more call exceeds the tolerance of each floor that `make bench` compares with."""
    known = floors(version="3.11")
    assert known
    for name in (name for name in known if "calls a rank-step" in name):
        assert above({name: known[name] + 1}, known)
        assert not above({name: known[name]}, known)


def test_floors_only_sink(tmp_path: Path) -> None:
    file = tmp_path / "floors.json"
    lower({"calls": 10.0, "more": 1.0}, file, "3.11")
    lower({"calls": 12.0, "more": 0.5, "new": 3.0}, file, "3.11")
    lower({"calls": 7.0}, file, "3.12")
    assert floors(file, "3.11") == {"calls": 10.0, "more": 0.5, "new": 3.0}
    assert floors(file, "3.12") == {"calls": 7.0}


def test_another_version_of_python_has_no_floors_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lower({"calls": 10.0}, tmp_path / "floors.json", "3.11")
    known = floors(tmp_path / "floors.json", "3.99")
    assert below({"calls": 12.0}, known) == ["calls"]
    assert compared({"calls": 12.0}, known) == 0
    assert "without one: calls; python -m benchmarks --lower writes them" in capsys.readouterr().err


def test_without_valgrind_instructions_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert instructions.counted() == {}
    assert "as valgrind is not installed" in capsys.readouterr().err


def test_the_doctests_of_benchmarks_pass() -> None:
    for module in (counts, lowest):
        result = doctest.testmod(module)
        assert result.attempted
        assert not result.failed
