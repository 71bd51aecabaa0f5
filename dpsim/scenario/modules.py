"""Imports the modules that register protocols, as a user names them in `--module`.

    import_named("my_protocols")                # or "protocols/mine.py"
    names_to_import("mine", "MINE-1")           # ["protocols/mine.py"]: what --module has to name for a scenario

Protocols that come with dpsim, and those of entry points, are registered without an import.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from dpsim.contract.registry import known_without_import, modules_of_forms, protocol, variant


def import_named(word: str) -> None:
    """By dotted name, also from the current folder, or by file, as pytest: below the first folder without package.

    Raises the module's error, and ImportError if there is no module or another one with that name.
    """
    if not word.endswith(".py") and os.sep not in word:
        sys.path.insert(0, os.getcwd())
        importlib.import_module(word)
        return
    file = Path(word).resolve()
    if not file.is_file():
        raise ImportError("there is no such file")
    folder, name = file.parent, file.stem
    while (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}.{name}"
    sys.path.insert(0, str(folder))
    found = importlib.import_module(name)
    if not os.path.samefile(getattr(found, "__file__", None) or os.devnull, file):
        raise ImportError(f"there is another module {name}, {found!r}; rename the file")


def names_to_import(protocol_name: str, variant_name: str | None) -> list[str]:
    """Returns the words for `--module` that register a protocol, its forms and its variant.

    What comes with dpsim or by entry points needs no word. For a file in the current folder the word is its relative
    path, so that a log is valid elsewhere. For other modules it is the dotted name.
    """
    owners: list[type[Any]] = [protocol(protocol_name).program]
    owners += [] if variant_name is None else [variant(variant_name).make]
    modules = dict.fromkeys([*(owner.__module__ for owner in owners), *modules_of_forms()])
    return [_named(module) for module in modules if not known_without_import(module)]


def _named(module: str) -> str:
    file: str | None = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module
    here = os.path.relpath(file)
    if not here.startswith(os.pardir) and "site-packages" not in Path(here).parts:
        return here
    return file if module == "__main__" else module
