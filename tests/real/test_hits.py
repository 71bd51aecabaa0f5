"""Disturbs healthy scenarios from outside, with nine signals and garbage on sockets. No disturbance may change a
verdict.

    python -m pytest -m slow -s tests/real/test_hits.py         # 14 hits, and a row of a table for each kind
    python -m pytest -m nightly -s tests/real/test_hits.py      # 33, and 200 in a night of size 10

The tests hit a worker, the fork server, a listening socket, an exploring process, or the command itself, at a random
moment. The outcome is that of a run without the hit, or a loss. Afterwards no process and no file is left.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpsim.contract.world import Lost
from dpsim.runner import run_scenario
from dpsim.scenario import Scenario, scenario_from
from real import folder
from real.backend import GlooBackend
from tests import ROOT
from tests.cli.commands import write
from tests.properties import of_night
from tests.real import hit_programs  # noqa: F401  # registers the programs
from tests.real.listeners import listeners
from tests.trouble import Left, children, later

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.xdist_group("gloo"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc"),
]

SIGNALS = [
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGUSR1),
    *(signal.SIGALRM, signal.SIGTERM, signal.SIGXCPU, signal.SIGSTOP),
]
GARBAGE = [b"GET / HTTP/1.0\r\n\r\n", b"\x00\x01\x02\xff\n", b'["set","0.0",9]\n', b"x" * (1 << 20), b"{}\n", b""]
SECONDS = 15.0
"""The limit on an idle machine. On a loaded machine it grows with the load (`within`)."""

STEPS = scenario_from({"name": "hit", "protocol": "real_hit_steps", "limits": {"stall": "10s"}})


def row(what: str, outcomes: Counter[str], longest: float) -> None:
    """Prints a line of the table."""
    said = ", ".join(f"{outcome} x {count}" for outcome, count in sorted(outcomes.items()))
    print(f"\n{what:<24} {sum(outcomes.values()):>4}  {said:<40} longest {longest:.1f} s", flush=True)


@pytest.fixture
def gloo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GlooBackend]:
    """Returns a pool whose folder belongs to this test."""
    from dpsim import runner

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(folder, "MEMORY", tmp_path / "none")
    monkeypatch.setattr("real.crew.LOOKS", 2)
    backend = GlooBackend()
    monkeypatch.setattr(runner, "_backends", {"gloo": backend})
    yield backend
    backend.close()
    assert list((tmp_path / "temporary").iterdir()) == []


def outcome(scenario: Scenario) -> str:
    """Returns how a run in this process ends. A hit never causes a finding."""
    try:
        result = run_scenario(scenario, "gloo")
    except Lost:
        return "lost"
    assert result.findings == [], [str(one) for one in result.findings]
    return result.verdict


def struck(gloo: GlooBackend, times: int, what: str, strike: Callable[[random.Random], object]) -> Counter[str]:
    """Runs a scenario in this process `times` times, each with one hit. Each run holds or is lost within a limit, and
    leaves nothing.
    """
    draw, outcomes, longest = random.Random(what), Counter[str](), 0.0
    assert outcome(STEPS) == "held"
    begun = time.monotonic()
    assert outcome(STEPS) == "held"
    usual = time.monotonic() - begun
    before = Left.now(Path(tempfile.gettempdir()))
    for _ in range(times):
        begun = time.monotonic()
        with later(draw.uniform(0, usual), lambda: strike(draw)):
            outcomes[outcome(STEPS)] += 1
        longest = max(longest, time.monotonic() - begun)
    row(what, outcomes, longest)
    assert outcome(STEPS) == "held", "the backend repairs what the last hit broke"
    assert set(outcomes) <= {"held", "lost"}
    assert longest < within(usual)
    left = Left.now(Path(tempfile.gettempdir()))
    assert (left.processes, left.shared) == (before.processes, before.shared)
    assert left.descriptors <= before.descriptors
    assert not [file for file in left.files if "job-" in file or "dpsim-new" in file]
    return outcomes


def within(usual: float) -> float:
    """Returns the limit in seconds for a run that takes `usual` without a hit."""
    return SECONDS * max(1.0, os.getloadavg()[1] / (os.cpu_count() or 1)) + usual


def send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def many(slow: int, least: int, nightly: int) -> pytest.MarkDecorator:
    """Parametrizes a test by the number of hits, in the slow and in the nightly suite (`of_night`)."""
    marked = [
        pytest.param(slow, marks=pytest.mark.slow),
        pytest.param(of_night(nightly, least), marks=pytest.mark.nightly),
    ]
    return pytest.mark.parametrize("times", marked)


@many(5, 9, 60)
def test_runs_hold_or_are_lost_after_a_signal_to_a_worker(gloo: GlooBackend, times: int) -> None:
    numbers = iter(SIGNALS * (times // len(SIGNALS) + 1))

    def strike(draw: random.Random) -> None:
        if gloo.pool.processes:
            send(draw.choice(gloo.pool.processes), next(numbers))

    assert struck(gloo, times, "signals to workers", strike)["lost"], "some signals arrived during a run"


@pytest.mark.nightly
def test_a_signal_that_is_a_verdict_is_found(gloo: GlooBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: a worker that any signal ended counts as a dead rank, so a hit causes a finding."""
    monkeypatch.setattr("real.child.FAULTS", {number.name for number in signal.Signals})
    numbers = iter([signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM] * 10)

    def strike(draw: random.Random) -> None:
        if gloo.pool.processes:
            send(draw.choice(gloo.pool.processes), next(numbers))

    with pytest.raises(AssertionError, match=r"DEAD_RANK|DEATH"):
        struck(gloo, 20, "signals as verdicts", strike)


@many(2, 5, 30)
def test_runs_hold_or_are_lost_after_a_signal_to_the_fork_server(gloo: GlooBackend, times: int) -> None:
    def strike(draw: random.Random) -> None:
        if gloo.pool.crew.server is not None:
            send(gloo.pool.crew.server.pid, draw.choice(SIGNALS))

    struck(gloo, times, "signals to the forker", strike)


@many(4, 9, 60)
def test_runs_hold_or_are_lost_after_garbage_on_each_socket(gloo: GlooBackend, times: int) -> None:
    """Sends garbage to all sockets: those of stores, of gloo and of torch's store. Only the connection of the garbage
    is closed, so the run holds.
    """

    def strike(draw: random.Random) -> None:
        for address, port in listeners([os.getpid(), *gloo.pool.processes]):
            with contextlib.suppress(OSError), socket.create_connection((str(address), port), 1) as stranger:
                stranger.settimeout(0.05)
                stranger.sendall(draw.choice(GARBAGE))
                stranger.recv(1)

    struck(gloo, times, "garbage on all sockets", strike)


# ---- commands, each in another process


class Command:
    """A command with its own folders. An environment variable marks its processes."""

    def __init__(self, at: Path, *words: str) -> None:
        self.temporary = at / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.mark = f"DPSIM_HIT={os.getpid()}.{time.monotonic_ns()}"
        name, _, value = self.mark.partition("=")
        told = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT), name: value}
        self.shared = shared()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dpsim.cli", *words, "--module", "tests.real.hit_programs"],
            cwd=at,
            env=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        said = self.process.communicate(timeout=120)[0]
        return self.process.returncode, said

    def left(self) -> list[str]:
        """Returns the processes and files that the command has left."""
        mine = [f"process {pid}" for pid in processes() if self.mark.encode() in environment(pid)]
        return [*mine, *map(str, self.temporary.iterdir()), *sorted(shared() - self.shared)]


def processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]


def environment(process: int) -> list[bytes]:
    try:
        return Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def shared() -> set[str]:
    """Returns the shared memory that no process holds. A pool locks its folder, and other commands on this machine have
    pools too.
    """
    there = [entry for entry in os.listdir("/dev/shm") if entry.startswith(("dpsim-", "torch_"))]
    return {entry for entry in there if entry.startswith("torch_") or is_left(Path("/dev/shm", entry))}


def is_left(pool: Path) -> bool:
    held = folder._lock(pool)
    if held is not None:
        os.close(held)
    return held is not None


def hit(
    command: Command, when: float, number: signal.Signals, victims: Callable[[], list[int]], draw: random.Random
) -> str:
    """Returns the outcome of a command of which one process gets a signal after `when` seconds."""
    begun = time.monotonic()
    while time.monotonic() < begun + when and command.process.poll() is None:
        time.sleep(0.01)
    there = victims()
    if there:
        send(draw.choice(there), number)
        if number == signal.SIGSTOP and there == [command.process.pid]:
            send(command.process.pid, signal.SIGCONT)
    code, said = command.end()
    deadline = time.monotonic() + SECONDS
    while command.left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert command.left() == []
    wanted = {0, 3} if there != [command.process.pid] else {0, 3, 128 + number, -number}
    assert code in wanted, said
    return str(code)


def commands(tmp_path: Path, times: int, what: str, words: tuple[str, ...], of_itself: bool) -> None:
    write(tmp_path / "x.yaml", "name: hit\nprotocol: real_hit_steps\nlimits: {stall: 10s}\n")
    draw, outcomes, longest = random.Random(what), Counter[str](), 0.0
    begun = time.monotonic()
    first = Command(tmp_path, *words)
    code, said = first.end()
    assert code == 0, said
    usual = time.monotonic() - begun
    for turn in range(times):
        begun = time.monotonic()
        command = Command(tmp_path, *words)
        own = command.process.pid
        victims = (lambda own=own: [own]) if of_itself else (lambda own=own: descendants(own))
        outcomes[hit(command, draw.uniform(0.2, 1) * usual, SIGNALS[turn % len(SIGNALS)], victims, draw)] += 1
        longest = max(longest, time.monotonic() - begun)
    row(what, outcomes, longest)
    assert longest < within(2 * usual)


def descendants(process: int) -> list[int]:
    try:
        return children(process)
    except OSError:
        return []


@many(2, 6, 27)
def test_the_command_ends_cleanly_after_a_signal(times: int, tmp_path: Path) -> None:
    commands(tmp_path, times, "signals to the command", ("run", "x.yaml", "--backend", "gloo"), of_itself=True)


@many(1, 4, 23)
def test_an_exploration_ends_cleanly_after_a_signal_to_its_process(times: int, tmp_path: Path) -> None:
    words = ("explore", "x.yaml", "--jobs", "2", "--schedules", "60", "--strategy", "random")
    commands(tmp_path, times, "signals to explorers", words, of_itself=False)
