"""Tests that the place of an exception is a line of the program, and not of the library that the program called."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from dpsim.backend.journal.call_site import raised_at
from dpsim.contract.interface import Rank
from dpsim.contract.ops import RAISED_MESSAGE, SITE, WHERE
from tests.programs import run, set_to, world_of

HERE = "tests/backend/test_call_site.py"


def stacks() -> None:
    np.stack([np.zeros(1), np.zeros(2)])


def reads_json() -> None:
    __import__("json").loads("{")


def from_another() -> None:
    try:
        stacks()
    except ValueError as error:
        raise KeyError from error


@pytest.mark.parametrize("mistake", [stacks, reads_json])
def test_the_line_that_called_the_library(mistake: FunctionType) -> None:
    with pytest.raises(ValueError, match=r"shape|property") as raised:
        mistake()
    assert raised_at(raised.value) == f"{HERE}:{mistake.__code__.co_firstlineno + 1}"


def test_the_cause_is_the_innermost() -> None:
    with pytest.raises(KeyError) as raised:
        from_another()
    assert raised_at(raised.value) == f"{HERE}:{stacks.__code__.co_firstlineno + 1}"


def installed(package: str, inner: Callable[[], Any] | None = None) -> Callable[[], Any]:
    """Returns a function of an installed package, which calls `inner` or divides by zero."""
    names: dict[str, Any] = {"__name__": f"{package}.parts", "inner": inner}
    source = "def call():\n    return inner() if inner else 1 // 0"
    exec(compile(source, f"/usr/lib/python3/dist-packages/{package}/parts.py", "exec"), names)
    call: Callable[[], Any] = names["call"]
    return call


def divides() -> None:
    installed("theirs", installed("library"))()


@pytest.mark.parametrize(
    ("packages", "where"),
    [([], f"{HERE}:{divides.__code__.co_firstlineno + 1}"), (["theirs"], "theirs/parts.py:2")],
)
def test_a_protocol_may_be_installed_like_a_library(packages: list[str], where: str) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        divides()
    assert raised_at(raised.value, packages) == where


def test_where_all_is_of_libraries_the_outermost_is_named() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        installed("theirs", installed("library"))()
    trace = raised.value.with_traceback(raised.tb.tb_next)  # the traceback without the frame of this test
    assert raised_at(trace) == "theirs/parts.py:2"


def misfits(target: Any) -> None:
    target[:] = np.concatenate(np.stack([np.zeros(1), np.zeros(2)]))


async def launches(rank: Rank) -> None:
    x = rank.stream("main").alloc(2, "int32", "x")
    rank.stream("main").launch("misfit", misfits, writes=[x])
    await x.read("read")


async def fits(rank: Rank) -> None:
    x = rank.stream("main").alloc(2, "int32", "x")
    rank.stream("main").launch("fit", set_to, writes=[x], args=(1,))
    await x.read("read")


def test_a_kernel_that_misuses_numpy_is_named_by_its_own_line() -> None:
    raised = run(world_of(1), launches).journals[0][-1]
    assert raised[SITE] == "KernelError"
    assert raised[RAISED_MESSAGE].startswith("kernel misfits of rank 0 misfit[0]: ValueError: all input arrays")
    assert raised[WHERE] == f"{HERE}:{misfits.__code__.co_firstlineno + 1}"
    assert run(world_of(1), fits).finished
