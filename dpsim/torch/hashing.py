"""Finds whether a program may depend on hashes, so that one more run gives its ranks different hash seeds.

    may_hash(Path("train.py"))      # True: it iterates over a set, or imports an installed package

Python draws the hash seed of each process anew, unless PYTHONHASHSEED is set. So `hash` of text and the order of a set
differ between ranks. A second interpreter with another seed costs an import of torch, and most programs need none. Such
a program, with the files that it imports from its folder, names no set and no hash. dpsim takes for granted that torch,
numpy and Python's library do not depend on hashes.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS = frozenset({"hash", "id", "set", "frozenset"})
TRUSTED = frozenset({"torch", "numpy", "dpsim", *sys.stdlib_module_names})


def may_hash(file: Path) -> bool:
    """Returns whether the file, or a file of its folder that it imports, names a set, a hash or an installed package.

    Returns True for a file that cannot be read.
    """
    left, seen = [file], {file}
    while left:
        try:
            tree = ast.parse(left.pop().read_bytes())
        except (OSError, SyntaxError, ValueError):
            return True
        for node in ast.walk(tree):
            if isinstance(node, ast.Set | ast.SetComp) or (isinstance(node, ast.Name) and node.id in WORDS):
                return True
            for name in _imported(node):
                found = _own(file.parent, name)
                if not found and name.partition(".")[0] not in TRUSTED:
                    return True
                left += [one for one in found if one not in seen]
                seen.update(found)
    return False


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.module:
            yield node.module
        if node.level or node.module:  # each name may be a module
            yield from (f"{node.module}.{one.name}" if node.module else one.name for one in node.names)


def _own(folder: Path, name: str) -> list[Path]:
    """Returns the files of a module that lies in the program's folder, with those of its packages."""
    parts, found = name.split("."), list[Path]()
    for number in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:number])
        found += [one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()]
    return found
