"""Tests exceptions that are not subclasses of Exception. If a line of a program raises one, it is a finding. If a
signal or a closed coroutine raises it, it is none.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from dpsim.backend.journal.own_raise import DebuggerQuit, breaks_off_rank
from dpsim.contract.interface import Rank
from tests.programs import explored, judged, world_of

WORLD = world_of(2, hosts=["h"])


class Stop(BaseException):
    """A program's own exception."""


@pytest.mark.parametrize("kind", [GeneratorExit, KeyboardInterrupt, Stop])
def test_any_exception_of_a_program_is_a_finding(kind: type[BaseException]) -> None:
    async def script(rank: Rank) -> None:
        await rank.host("h").barrier(site="meet")
        if rank.rank == 1:
            raise kind

    for findings in (judged(WORLD, script), list(explored(WORLD, script).findings)):
        (finding,) = findings
        assert finding.klass == f"CRASH:{kind.__name__.upper()}"
        assert finding.culprit is not None
        assert finding.culprit.rank == 1
        assert finding.culprit.where.startswith("tests/sim/test_own_raise.py:")


def exits(x: Any) -> None:
    raise GeneratorExit


def stops(x: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kernel", [exits, stops])
def test_any_exception_of_a_kernel_is_a_finding(kernel: Any) -> None:
    async def script(rank: Rank) -> None:
        main = rank.stream("main")
        x = main.alloc(1, "int32", "x")
        main.launch("kernel", kernel, writes=[x])
        await x.read("read")

    (finding,) = judged(WORLD, script)
    assert finding.klass == "CRASH:KERNELERROR"
    assert finding.culprit is not None
    assert finding.culprit.every


def interrupts(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


@contextmanager
def handled(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.default_int_handler, interrupts])
def test_an_interrupt_by_a_signal_ends_the_run(handler: Any) -> None:
    """An interrupt by a signal ends the run, with each handler: it is no finding about a rank."""

    async def script(rank: Rank) -> None:
        if rank.rank == 1:
            signal.raise_signal(signal.SIGINT)
        await rank.host("h").barrier(site="meet")

    with handled(handler), pytest.raises(KeyboardInterrupt):
        judged(WORLD, script)


def test_a_test_that_fails_within_a_program_is_no_finding() -> None:
    async def script(rank: Rank) -> None:
        pytest.fail("by its test")

    with pytest.raises(pytest.fail.Exception, match="by its test"):
        judged(WORLD, script)


@pytest.mark.parametrize("module", ["pdb", "mine"])
def test_a_system_exit_of_pdb_ends_the_run(module: str) -> None:
    """In Python 3.14, `q` after `breakpoint()` raises SystemExit within pdb. From other modules, it is a finding."""
    scope: dict[str, Any] = {"__name__": module}
    exec("def quits():\n    raise SystemExit(1)", scope)

    async def script(rank: Rank) -> None:
        scope["quits"]()

    with pytest.raises(DebuggerQuit) if module == "pdb" else nullcontext():
        assert {one.klass for one in judged(WORLD, script)} == {"CRASH:SYSTEMEXIT"}


def test_a_closed_coroutine_raised_nothing() -> None:
    """Rank 1 hangs, and the run closes its coroutine. The only finding is the hang, not the GeneratorExit."""
    seen: list[bool] = []

    async def script(rank: Rank) -> None:
        try:
            await rank.mailbox("never").get("get")
        except GeneratorExit as error:
            seen.append(breaks_off_rank(error))
            raise

    assert {one.klass for one in judged(WORLD, script)} == {"HANG:MAILBOX:NO_MESSAGE"}
    assert seen == [False, False]


def test_an_exception_without_a_traceback_is_of_no_program() -> None:
    assert breaks_off_rank(ValueError())
    assert not breaks_off_rank(KeyboardInterrupt())
