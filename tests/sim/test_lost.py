"""Tests runs for which the computer that runs dpsim has no memory. Such a run is lost, and the checks report nothing.
The program or a kernel may raise the MemoryError.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND
from dpsim.contract.world import Run
from dpsim.sim.memory.allocator import CachingAllocator
from tests.programs import run, world_of

WORLD = world_of(2, ["dp_cpu"])


def exhaust(target: Any) -> None:
    raise MemoryError


def refuse(target: Any) -> None:
    raise OSError(errno.EACCES, "not yours")


def run_and_classes(script: Any) -> tuple[Run, list[str]]:
    """Returns a run, and the classes of its findings."""
    done = run(WORLD, script)
    return done, [finding.klass for finding in judge(WORLD, done)]


async def hears_of_it(rank: Rank, kernel: Any) -> None:
    main = rank.stream("main")
    x = main.alloc(1, "int32", "x")
    main.launch("kernel", kernel, writes=[x])
    await x.read("read")


async def never_waits(rank: Rank, kernel: Any) -> None:
    main = rank.stream("main")
    main.launch("kernel", kernel, writes=[main.alloc(1, "int32", "x")])
    await rank.mailbox("box").get("idle", idle=True)


@pytest.mark.parametrize("how", [hears_of_it, never_waits])
@pytest.mark.parametrize("kernel", [exhaust, refuse])
def test_a_run_whose_kernel_finds_no_memory_is_lost(how: Any, kernel: Any) -> None:
    """If a kernel raises MemoryError, the run is lost. If it raises another error, this is a finding."""

    async def script(rank: Rank) -> None:
        await how(rank, kernel)

    done, found = run_and_classes(script)
    if kernel is exhaust:
        assert done.lost.startswith("no memory")
        assert (done.observed, found) == (f"lost: {done.lost}", [])
    else:
        assert (done.lost, found) == ("", ["CRASH:KERNELERROR"])


def test_the_other_ranks_of_a_lost_run_stop() -> None:
    """If one rank has no memory, the other ranks stop where they are, even a rank that would poll without end."""

    async def script(rank: Rank) -> None:
        rank.step = 4
        await rank.host("dp_cpu").barrier(site="meet")
        if rank.rank == 1:
            raise MemoryError
        while await rank.mailbox("box").poll("poll") is None:
            pass

    done, found = run_and_classes(script)
    assert (done.lost, done.ends, found) == ("no memory (rank 1 in step 4)", ["blocked", "raised"], [])
    assert done.journals[1][-1][KIND] == "raised", "the loss names where it was"


def test_the_machine_has_no_memory_for_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(CachingAllocator, "alloc", full)

    async def script(rank: Rank) -> None:
        rank.stream("main").alloc(1, "int32", "x")

    done, found = run_and_classes(script)
    assert (done.lost, found) == ("cannot allocate memory (rank 0 in step 0)", [])
