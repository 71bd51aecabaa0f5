"""The pieces of a program: classes from which `prepare` builds it, one of which a variant may replace.

    def prepare(self, args):
        return with_variant(self, args, {Source: Source})[Source]()

A variant that derives from the program's class runs in place of the program, and needs none of this
(`dpsim.contract.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.contract.program import Arguments, Program, Unsuitable
from dpsim.contract.registry import variant

REQUESTED: dict[type[Program[Any]], dict[type[Any], dict[type[Any], None]]] = {}
"""By program: the pieces that it has requested so far, each with the classes that replaced it."""


def with_variant(
    program: Program[Any], args: Arguments, pieces: Mapping[type[Any], type[Any]]
) -> dict[type[Any], type[Any]]:
    """For `prepare`: returns the pieces of a program, with the variant in place of the piece that it replaces. The keys
    of `pieces` are the base classes from which a replacement must derive. Raises Unsuitable if the variant replaces
    none.
    """
    asked = REQUESTED.setdefault(type(program), {})
    for base, made in pieces.items():
        asked.setdefault(base, {})[made] = None
    if args.variant is None:
        return dict(pieces)
    entry = variant(args.variant)
    replaced = {base: entry.make for base in pieces if issubclass(entry.make, base)}
    if not (replaced or isinstance(program, entry.make)):
        known = ", ".join(base.__qualname__ for base in [*pieces, type(program)])
        raise Unsuitable(
            f"the variant {entry.name} is {entry.make.__qualname__}, which replaces nothing in {entry.protocol}; "
            f"expected a class derived from one of {known}"
        )
    return {**pieces, **replaced}
