"""Tests a program that ends its process: dpsim reports a finding with the rank and line, and continues."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from dpsim.contract.interface import Rank
from dpsim.diagnose.words import text
from dpsim.sim.hosts.exits import NoExits
from tests.programs import explored, judged, world_of

WORLD = world_of(2, hosts=["h"])

EXITS: dict[str, Callable[[], object]] = {
    "_exit": lambda: os._exit(3),
    "abort": lambda: os.abort(),  # the lambda looks the function up during the run
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "group": lambda: os.killpg(os.getpgrp(), signal.SIGKILL),
    "raise": lambda: signal.raise_signal(signal.SIGABRT),
    "exec": lambda: os.execl(sys.executable, sys.executable, "-c", "pass"),
    "execve": lambda: os.execle(sys.executable, sys.executable, "-c", "pass", {}),
}


@pytest.mark.parametrize("how", EXITS)
def test_the_end_of_a_process_is_a_finding(how: str) -> None:
    async def script(rank: Rank) -> None:
        if rank.rank == 1:
            EXITS[how]()
        await rank.host("h").barrier(site="meet")

    for findings in (judged(WORLD, script), list(explored(WORLD, script).findings)):
        assert findings[0].klass == "CRASH:PROCESSEXIT"
        culprit = findings[0].culprit
        assert culprit is not None
        assert culprit.rank == 1
        assert culprit.where.startswith("tests/sim/test_exits.py:")
        assert "would end the process of this rank" in text(findings[0].message)


@pytest.mark.parametrize("leave", [sys.exit, lambda: exec("raise SystemExit")], ids=["sys.exit", "raise"])
def test_sys_exit_of_a_program_is_a_finding(leave: Callable[[], object]) -> None:
    async def script(rank: Rank) -> None:
        leave()

    (finding,) = explored(WORLD, script).findings
    assert finding.klass == "CRASH:SYSTEMEXIT"
    assert "tests/sim/test_exits.py:" in text(finding.message)


def test_signals_that_end_nothing_are_sent() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:

        async def script(rank: Rank) -> None:
            os.kill(os.getpid(), 0)
            os.kill(os.getpid(), signal.SIGCHLD)
            signal.raise_signal(signal.SIGUSR1)

        assert judged(WORLD, script) == []
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert {*seen} == {signal.SIGUSR1}


def test_a_child_of_a_program_may_end() -> None:
    async def script(rank: Rank) -> None:
        child = os.fork()
        if not child:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    assert judged(WORLD, script) == []


def test_a_run_restores_the_functions_that_end_a_process() -> None:
    before = os._exit, os.abort, os.kill, os.execv, signal.raise_signal
    with NoExits():
        assert os._exit is not before[0]
    assert (os._exit, os.abort, os.kill, os.execv, signal.raise_signal) == before
