"""Runs the examples in docstrings of the model of vLLM, and those of the framework that run vLLM's programs."""

from __future__ import annotations

import pytest

from tests.test_doctests import ALL, WITH_VLLM, run_examples

MODULES = [name for name in ALL if name in WITH_VLLM or f"{name}.".startswith("dpsim.vllm.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert run_examples(name).failed == 0


@pytest.mark.parametrize("name", WITH_VLLM)
def test_there_are_examples(name: str) -> None:
    assert run_examples(name).attempted > 0
