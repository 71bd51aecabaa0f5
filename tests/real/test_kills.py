"""Kills or stops processes of commands at random moments, many times. Measures how commands end, how long they take,
and what they leave behind.

Each campaign of kills prints a row of a table (`pytest -m slow -s tests/real/test_kills.py`):

    what                                           times  exit codes       longest  left behind

A kill that comes too late has no effect. Any other kill makes the run lost. A kill never changes a verdict, and a
command never exceeds its deadlines.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dpsim import runner
from dpsim.campaign import plans
from real import folder
from real.backend import GlooBackend
from tests import protocols  # noqa: F401  # registers t_agree
from tests.cli.commands import dpsim_, write
from tests.cli.protocols import scenario
from tests.properties import of_night
from tests.trouble import Left, children, later

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.xdist_group("gloo"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc"),
]

STEPS = """
name: steps
protocol: {name: t_agree, params: {ranks: 3, steps: 80, tokens: [5, 3, 0]}}
limits: {stall: 10s}  # a busy machine may hold healthy ranks up for a second
"""
HANG = "expect: {class: 'HANG:*'}\n"

Victims = Callable[[], list[int]]


def row(what: str, codes: Counter[int], longest: float, before: Left) -> None:
    """Prints a row. Resources from before the campaign may be gone, such as the pool of another test."""
    now = Left.now(Path(tempfile.gettempdir()))
    left: dict[str, object] = {
        name: (then, one) for name, then, one in zip(Left._fields, before[:3], now[:3], strict=False) if one > then
    }
    files = [file for file in now.files if "job-" in file or "dpsim-new" in file]
    if files:
        left["files"] = files
    said = ", ".join(f"{code} x {count}" for code, count in sorted(codes.items()))
    print(f"\n{what:<46} {sum(codes.values()):>4}  {said:<16} {longest:>6.1f} s  {left or 'nothing'}", flush=True)
    assert not left


def campaign(what: str, times: int, words: list[str], number: signal.Signals, victims: Victims) -> Counter[int]:
    """Runs a command repeatedly. Each time one of its processes gets a signal at a random moment."""
    draw = random.Random(what)
    dpsim_(*words)  # fills the warm pools
    begun = time.monotonic()
    expected = dpsim_(*words)
    usual = time.monotonic() - begun
    struck, before, codes, longest = 0, Left.now(Path(tempfile.gettempdir())), Counter[int](), 0.0

    def strike() -> None:
        nonlocal struck
        there = victims()
        struck += bool(there)
        if there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(there), number)

    for _ in range(times):
        begun = time.monotonic()
        with later(draw.uniform(0, usual), strike):
            answer = dpsim_(*words)
        codes[answer.code] += 1
        if answer.code != 3:
            same = (answer.code, answer.out.splitlines()[-1]) == (expected.code, expected.out.splitlines()[-1])
            assert same, f"{answer.out}\n{answer.err}"
        longest = max(longest, time.monotonic() - begun)
    dpsim_(*words)  # repairs what the last run left broken
    row(f"{what} ({struck} met one)", codes, longest, before)
    return codes


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("temporary", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(folder, "MEMORY", tmp_path / "none")
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def gloo(monkeypatch: pytest.MonkeyPatch) -> GlooBackend:
    """Returns the pool of the commands, which they leave warm."""
    backend = GlooBackend()
    monkeypatch.setattr(runner, "_backends", {"gloo": backend})
    monkeypatch.setattr(runner, "warm_backends", contextlib.nullcontext)
    return backend


def many(*rows: tuple[signal.Signals, int, int, int]) -> pytest.MarkDecorator:
    """Parametrizes a test by signal and number of kills: in the slow suite, in a small night, and in a real one."""
    slow = [pytest.param(number, times, marks=pytest.mark.slow) for number, times, _, _ in rows]
    nightly = [pytest.param(number, of_night(most, few), marks=pytest.mark.nightly) for number, _, few, most in rows]
    return pytest.mark.parametrize(("number", "times"), [*slow, *nightly])


@many((signal.SIGKILL, 6, 12, 40), (signal.SIGTERM, 3, 4, 10), (signal.SIGSTOP, 3, 4, 10))
def test_a_run_whose_worker_is_killed_is_lost_or_hangs(gloo: GlooBackend, number: signal.Signals, times: int) -> None:
    """Kills workers of a run that hangs without the kill. The exit code is 1 if the kill came too late, and else 3."""
    file = write(Path("x.yaml"), STEPS + HANG)
    try:
        words = ["run", str(file), "--backend", "gloo"]
        codes = campaign(f"{number.name} to workers of gloo", times, words, number, lambda: gloo.pool.processes)
        assert set(codes) <= {1, 3}
        assert codes[3]
    finally:
        gloo.close()


@many((signal.SIGKILL, 3, 6, 20), (signal.SIGSTOP, 1, 2, 5))
def test_a_run_holds_or_is_lost_after_kills_of_the_fork_server(
    gloo: GlooBackend, number: signal.Signals, times: int
) -> None:
    """Kills or stops the fork server, which forks the workers. If it is stopped, a run continues, but the next set-up
    fails.
    """
    file = write(Path("x.yaml"), STEPS)

    def victims() -> list[int]:
        return [gloo.pool.crew.server.pid] if gloo.pool.crew.server is not None else []

    try:
        words = ["run", str(file), "--backend", "gloo"]
        codes = campaign(f"{number.name} to what forks them", times, words, number, victims)
        assert set(codes) <= {0, 3}
    finally:
        gloo.close()


@many((signal.SIGKILL, 8, 20, 50), (signal.SIGSTOP, 2, 4, 10))
def test_an_exploration_continues_after_kills_of_its_processes(
    number: signal.Signals, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills exploring processes. dpsim assigns their units of work to others, so most kills only cost time."""
    monkeypatch.setattr(plans, "UNIT_STEPS", 100)
    names = ("t_look", "t_two", "t_lost")
    files = [str(write(Path(f"{name}.yaml"), scenario(name, ranks=4))) for name in names]
    words = ["explore", *files, "--module", "tests.cli.protocols", "--jobs", "2", "--keep-going", "--schedules", "300"]
    usual = dpsim_(*words).code
    codes = campaign(f"{number.name} to exploring processes", times, words, number, lambda: children(os.getpid()))
    assert set(codes) <= {usual, 3}
