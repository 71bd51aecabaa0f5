"""Imports a module of vLLM, or one that is installed with it."""

from __future__ import annotations

import importlib
from importlib import metadata, util
from types import ModuleType
from typing import Any


class NotAsked(Exception):
    """The check could not put a question to the installed release. The message contains the reason.

    `by_design`: whether this is intended, so that nothing is wrong.
    """

    def __init__(self, why: str, by_design: bool = False) -> None:
        super().__init__(why)
        self.by_design = by_design


def installed() -> str | None:
    """Returns the installed release, or None. A folder with the name vllm is no package.

    This function imports vLLM only if the package has no metadata.
    """
    found = util.find_spec("vllm")
    if found is None or found.origin is None:
        return None
    try:
        return metadata.version("vllm")
    except metadata.PackageNotFoundError:
        try:
            return str(module("vllm").__version__)
        except Exception as error:
            return f"unknown ({type(error).__name__}: {error})"


def module(name: str) -> ModuleType:
    """A module of the engine, or one that comes with it."""
    return importlib.import_module(name)


def function(place: str, name: str) -> Any:
    """Returns a function or class of a module of vLLM. Raises ImportError if the module does not have it."""
    found = getattr(module(place), name, None)
    if found is None:
        raise ImportError(f"{place} has no {name}")
    return found
