"""Runs one file of a vLLM wheel, with stand-ins for the modules that it imports.

    scope = run_file("0.33.0", "vllm/v1/worker/ubatching.py", {"torch": torch, "vllm.logger": logger})
    scope["UBatchContext"]

Each call of `run_file` executes the file again, so its module variables start fresh.
"""

from __future__ import annotations

import sys
from functools import cache
from types import CodeType, ModuleType
from typing import Any
from unittest.mock import patch

from tests.vllm.torch.wheels import unpacked


@cache
def code_of(release: str, file: str) -> CodeType:
    """Returns the compiled file. Skips the test if no package index provides the wheel."""
    return compile((unpacked(release) / file).read_bytes(), file, "exec")


def module(name: str, **names: Any) -> ModuleType:
    """Returns a module with these names."""
    made = ModuleType(name)
    vars(made).update(names)
    return made


def run_file(release: str, file: str, modules: dict[str, ModuleType]) -> dict[str, Any]:
    """Runs a file that imports `modules` by name, and returns the names that the file defines."""
    code = code_of(release, file)
    parents = {name.rpartition(".")[0] for name in modules} - {""}
    scope: dict[str, Any] = {"__name__": f"engine.{release}"}
    with patch.dict(sys.modules, {name: module(name) for name in parents} | modules):
        exec(code, scope)
    return scope
