"""Tests that a run restores the environment variables of the process, and names those that the program changed."""

from __future__ import annotations

import os
import subprocess

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.world import World
from dpsim.sim.backend import SimBackend
from tests.programs import Script, Scripted

SET, CHANGED, DELETED, KEPT = (f"DPSIM_TEST_{word}" for word in ("SET", "CHANGED", "DELETED", "KEPT"))


async def changes(rank: Rank) -> None:
    os.environ[SET] = os.environ[CHANGED] = "in the run"
    del os.environ[DELETED]
    await rank.sleep(1, "nap")
    assert (os.environ[SET], os.environ[CHANGED], DELETED in os.environ) == ("in the run", "in the run", False)


async def raises(rank: Rank) -> None:
    await changes(rank)
    raise ValueError("oh")


async def changes_at_the_end(rank: Rank) -> None:
    try:
        await rank.mailbox("box").get("never", idle=True)
    finally:
        os.environ[SET] = "at the end"


@pytest.mark.parametrize(
    ("script", "changed"),
    [(changes, (CHANGED, DELETED, SET)), (raises, (CHANGED, DELETED, SET)), (changes_at_the_end, (SET,))],
)
def test_a_run_restores_the_environment_variables(
    script: Script, changed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SET, raising=False)
    for name in (CHANGED, DELETED, KEPT):
        monkeypatch.setenv(name, "before")
    before = dict(os.environ)
    run = SimBackend().run_program(World(1, ()), Scripted(script), None)
    assert run.variables == changed
    assert dict(os.environ) == before
    printed = subprocess.run(["sh", "-c", f"echo ${CHANGED} ${SET}"], check=True, capture_output=True).stdout
    assert printed == b"before\n", "a child process inherits the restored variable"


def test_a_run_that_changes_no_variable_names_none() -> None:
    async def reads(rank: Rank) -> None:
        os.environ.get("HOME")

    assert SimBackend().run_program(World(1, ()), Scripted(reads), None).variables == ()
