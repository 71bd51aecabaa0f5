"""Tests that Ctrl-C and SIGTERM end a command at once, and that it prints the position of each rank."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.protocols import scenario

PROTOCOLS = """
import os
import signal
import numpy as np
from dpsim.contract.registry import register_protocol
from tests.sized import SizedProgram

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
NUMBER = getattr(signal, os.environ["SENDS"])
os.environ.setdefault("COMMAND", str(os.getpid()))  # workers know it, too


@register_protocol("t_spins")
class Spins(SizedProgram):
    '''Each rank polls for ever; rank 1 sends its process a signal before.'''

    async def run(self, rank, args):
        rank.step = 3
        with open("processes", "a") as file:
            print(os.getpid(), file=file)
        await self.before(rank)
        if rank.rank == 1:
            os.kill(int(os.environ["COMMAND"]), NUMBER)
        while await rank.mailbox("box").poll("spin") is None:
            await self.between(rank)

    async def before(self, rank):
        pass

    async def between(self, rank):
        pass


@register_protocol("t_meets")
class Meets(Spins):
    '''No process is interrupted before its first op.'''

    async def before(self, rank):
        await rank.host("world").barrier(site="meet")


@register_protocol("t_naps")
class Naps(Spins):
    async def between(self, rank):
        await rank.sleep(1_000, "nap")


@register_protocol("t_agrees")
class Agrees(Spins):
    '''Rank 1 interrupts while the others wait for it.'''

    async def run(self, rank, args):
        rank.step = 5
        if rank.rank == 1:
            os.kill(int(os.environ["COMMAND"]), NUMBER)
        await rank.host("world").all_reduce(np.ones(1, np.int32), site="agree")
"""


def ended(folder: Path, name: str, sends: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "endless.py").write_text(PROTOCOLS)
    (folder / "one.yaml").write_text(scenario(name))
    command = [sys.executable, "-m", "dpsim.cli", *words, "one.yaml", "--module", "endless"]
    told = {**os.environ, "SENDS": sends, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder), *sys.path])}
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, check=False)


SIGNALS = [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated"), ("SIGUSR1", 138, "ended by SIGUSR1")]
EVERY = [
    (*signal, *rest) for signal in SIGNALS for rest in itertools.product(["t_spins", "t_naps"], ["run", "explore"])
]
PAIRS = EVERY[0], EVERY[7], EVERY[8]
"""Contains each signal, each program and each command at least once."""


@pytest.mark.parametrize(
    ("sends", "code", "said", "name", "command"),
    [pytest.param(*one, marks=[pytest.mark.slow] * (one not in PAIRS)) for one in EVERY],
)
def test_a_signal_ends_a_run_at_once(sends: str, code: int, said: str, name: str, command: str, tmp_path: Path) -> None:
    """Two ranks loop, and the second gets the signal. Without dpsim's handling, SimPy would let the first rank
    continue.
    """
    done = ended(tmp_path, name, sends, command)
    assert (done.returncode, done.stdout) == (code, "")
    lines = done.stderr.splitlines()
    assert lines[0] == f"dpsim: {said}, without a result"
    stood = {line.partition(" in step")[0] for line in lines[1:] if "in step 3: " in line}
    assert all(line.startswith(("dpsim: rank ", "dpsim: ranks ")) for line in lines[1:])
    assert len(lines) <= 3
    assert "dpsim: rank 0" in stood
    assert lines[1].startswith("dpsim: rank 0 in step 3: ")
    assert ", endless.py:" in lines[1]


@pytest.mark.slow
def test_before_the_first_op(tmp_path: Path) -> None:
    done = ended(tmp_path, "t_agrees", "SIGINT", "run")
    assert done.stderr.splitlines()[1:] == [
        "dpsim: rank 0 in step 5: all_reduce int32[1] on world_cpu #0 at agree[0], endless.py:56",
        "dpsim: rank 1 before the first op",
    ]


COUNTING = """
import os
import signal
from pathlib import Path
from dpsim.contract.registry import register_protocol
from tests.sized import SizedProgram

signal.signal(signal.SIGINT, signal.default_int_handler)
RUNS = [0]


@register_protocol("t_counts")
class Counts(SizedProgram):
    '''Two messages of each rank to rank 0, which polls for them; the 200th run that begins interrupts.'''

    async def run(self, rank, args):
        rank.step = 0
        RUNS[0] += rank.rank == 0
        if RUNS[0] >= int(os.environ["AFTER"]):
            os.kill(os.getpid(), signal.SIGINT)
        for number in range(3):
            rank.send(0, "box", number, f"send{number}")
            await rank.mailbox("box").poll("look")
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "sampled: {} schedules, no failure"),
        (("--strategy", "dpor"), "sampled: {} schedules, no failure"),
        (("--swarm", "500:delay"), "sampled: explored {} of 500 worlds, {} schedules, no failure"),
    ],
    ids=["portfolio", "dpor", "swarm"],
)
def test_an_exploration_says_what_was_done(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(COUNTING)
    (tmp_path / "one.yaml").write_text(scenario("t_counts"))
    command = [sys.executable, "-m", "dpsim.cli", "explore", "one.yaml", "--module", "endless", *words]
    told = {**os.environ, "AFTER": "40", "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path), *sys.path])}
    done = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert bool(done.stdout) == ("worlds" in said), "a set prints its rows; test_explore_worlds.py reads them"
    first = done.stderr.splitlines()[0]
    number = r"[1-9][\d,]*" if "worlds" not in said else r"\d[\d,]*"
    assert re.fullmatch(f"dpsim: interrupted; {said}".replace("{}", number), first), done.stderr
