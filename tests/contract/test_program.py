"""Tests that a program that cannot run is refused where it is defined, registered or passed to a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.program import Program, refuse_no_program
from dpsim.contract.registry import register_protocol
from dpsim.sim.backend import SimBackend
from tests.programs import world_of


def test_a_program_without_an_awaitable_run_is_refused() -> None:
    """A `run` that is a plain function is refused when Python creates the class. Otherwise it would do all its work,
    and fail only when the backend awaits its result.
    """
    with pytest.raises(TypeError, match=r"Wrong.run is no coroutine function; write `async def run\("):

        class Wrong(Program[Any]):
            def run(self, rank: Rank, prepared: Any) -> None:  # type: ignore[override]
                pass


def without_a_base() -> Any:
    class Wrong:
        async def run(self, rank: Rank, prepared: Any) -> None:
            pass

    return Wrong


def without_run() -> Any:
    class Wrong(Program[Any]):
        async def runs(self, rank: Rank, prepared: Any) -> None:
            pass

    return Wrong


def with_arguments() -> Any:
    class Wrong(Program[Any]):
        def __init__(self, limit: int) -> None:
            pass

        async def run(self, rank: Rank, prepared: Any) -> None:
            pass

    return Wrong


def healthy() -> Any:
    class Right(Program[Any]):
        def __init__(self, limit: int = 3) -> None:
            pass

        async def run(self, rank: Rank, prepared: Any, *more: Any) -> None:
            pass

    return Right


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            without_a_base,
            r"Wrong is no class derived from Program; write `class Wrong\(Program\)` with `async def run\(",
        ),
        (without_run, r"Wrong has no run; write `async def run\("),
        (with_arguments, r"Wrong is made without arguments \(missing .*'limit'\); give them defaults"),
        (lambda: healthy()(), r"is no class derived from Program"),
    ],
)
def test_a_class_that_is_no_program_cannot_be_registered(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        register_protocol("test_wrong")(make())


def test_a_class_that_is_no_program_cannot_be_run() -> None:
    with pytest.raises(TypeError, match="is no class derived from Program"):
        SimBackend().run_program(world_of(1), without_a_base()(), None)


def test_a_program_that_can_be_run_is_taken() -> None:
    refuse_no_program(healthy())
    assert SimBackend().run_program(world_of(1), healthy()(), None).finished


def test_a_run_of_a_mixin_is_checked_too() -> None:
    class Mixin:
        def run(self, rank: Rank, prepared: Any) -> None:
            pass

    with pytest.raises(TypeError, match=r"Wrong.run is no coroutine function"):

        class Wrong(Mixin, Program[Any]):  # type: ignore[misc]
            pass


def test_a_run_that_yields_or_takes_other_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Yields.run is no coroutine function and has a yield, which makes it a gen"):

        class Yields(Program[Any]):
            async def run(self, rank: Rank, prepared: Any) -> Any:
                yield

    with pytest.raises(TypeError, match=r"Wrong.run cannot be called \(too many positional arguments\); write `async"):

        class Wrong(Program[Any]):
            async def run(self, rank: Rank) -> None:  # type: ignore[override]
                pass
