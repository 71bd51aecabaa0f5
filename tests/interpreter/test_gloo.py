"""Tests that the outcome of a random script on gloo is among the outcomes of its exploration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.contract.world import Backend
from tests.interpreter.on_gloo import KINDS, on_gloo, suitable

pytest.importorskip("torch")

pytestmark = pytest.mark.xdist_group("gloo")

QUICK, SLOW, NIGHTLY = 2, 8, 40
"""The ends of the ranges of scripts of each kind, in the quick, the slow and the nightly suite. With five kinds, these
are 200 scripts.
"""


def check(backend: Backend, kind: str, first: int, end: int) -> None:
    """Runs the suitable scripts of a kind from number `first` to number `end`."""
    seed = number = 0
    while number < end:
        chosen = suitable(kind, seed)
        seed += 1
        if chosen is None:
            continue
        script, seen = chosen
        number += 1
        if number > first:
            outcome = on_gloo(backend, script)
            assert outcome in seen.outcomes, f"{kind} {seed - 1}: {outcome}\n{script.words()}"


@pytest.fixture
def gloo(dpsim_backend: Callable[..., Backend]) -> Backend:
    return dpsim_backend("gloo", size=3)


@pytest.mark.parametrize("kind", KINDS)
def test_gloo_agrees_with_the_interpreter_on_few_scripts(gloo: Backend, kind: str) -> None:
    check(gloo, kind, 0, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_gloo_agrees_with_the_interpreter_on_some_scripts(gloo: Backend, kind: str) -> None:
    check(gloo, kind, QUICK, SLOW)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_gloo_agrees_with_the_interpreter_on_many_scripts(gloo: Backend, kind: str) -> None:
    check(gloo, kind, SLOW, NIGHTLY)
