"""Tests that a scenario of vLLM's protocols gives the same trace in each process, hash seed and version of Python."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping

import pytest

from tests.determinism.digests import digests
from tests.determinism.test_digests import VERSIONS, elsewhere, interpreter
from tests.vllm.determinism.digests import scenarios

MODULE = "tests.vllm.determinism.digests"


@functools.cache
def here() -> Mapping[str, str]:
    return digests(scenarios())


@pytest.mark.slow
def test_digests_are_equal_twice_in_one_process() -> None:
    assert digests(scenarios()) == here()


@pytest.mark.slow
def test_digests_of_different_scenarios_differ() -> None:
    """Each scenario has another digest, and most runs finish; otherwise equal digests would prove little."""
    names = [scenario.name for scenario in scenarios()]
    assert list(here()) == names
    assert len({said.partition("/")[0] for said in here().values()}) == len(names)
    assert sum("finished" in said for said in here().values()) > len(names) // 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1"])
def test_digests_are_equal_in_a_process_with_another_hash_seed(seed: str) -> None:
    assert elsewhere(sys.executable, seed, MODULE) == here()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.slow
def test_digests_are_equal_on_another_python(version: str) -> None:
    assert elsewhere(interpreter(version), module=MODULE) == here()
