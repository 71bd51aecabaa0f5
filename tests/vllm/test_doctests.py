"""Runs the examples in docstrings of the model of vLLM, of `dpsim_engine`, and those of the framework that run vLLM's
programs.
"""

from __future__ import annotations

import pkgutil

import pytest

import dpsim_engine
from tests.test_doctests import ALL, WITH_VLLM, run_examples

ENGINE = [module.name for module in pkgutil.walk_packages(dpsim_engine.__path__, "dpsim_engine.")]
MODULES = [name for name in ALL if name in WITH_VLLM or f"{name}.".startswith("dpsim.vllm.")]


@pytest.mark.parametrize("name", [*MODULES, *ENGINE])
def test_examples_in_docstrings(name: str) -> None:
    assert run_examples(name).failed == 0


@pytest.mark.parametrize("name", [*WITH_VLLM, "dpsim_engine.comparison"])
def test_there_are_examples(name: str) -> None:
    assert run_examples(name).attempted > 0
