"""One file of a wheel, run with stand-ins in place of what it imports.

    scope = run_file("0.33.0", "vllm/v1/worker/ubatching.py", {"torch": torch, "vllm.logger": logger})
    scope["UBatchContext"]

Each call gives fresh names, so variables of the file start anew.
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
    """The compiled file. Skips the test where no index has the wheel."""
    return compile((unpacked(release) / file).read_bytes(), file, "exec")


def module(name: str, **names: Any) -> ModuleType:
    """A module with these names."""
    made = ModuleType(name)
    vars(made).update(names)
    return made


def run_file(release: str, file: str, modules: dict[str, ModuleType]) -> dict[str, Any]:
    """Run a file, which finds `modules` by name. Returns the names that it defines."""
    code = code_of(release, file)
    parents = {name.rpartition(".")[0] for name in modules} - {""}
    scope: dict[str, Any] = {"__name__": f"engine.{release}"}
    with patch.dict(sys.modules, {name: module(name) for name in parents} | modules):
        exec(code, scope)
    return scope
