"""The error text for variants without exhibits: it names the files that the user has to write.

>>> nothing_to_show(["SKIP-OWN"])
'nothing to show: none of the exhibits is named skip-own.yaml; write this scenario, with protocol.variant: SKIP-OWN, \
and give its folder by --exhibits'
"""

from __future__ import annotations

from collections.abc import Sequence


def nothing_to_show(variants: Sequence[str]) -> str:
    """Returns the text for variants of which none has an exhibit; without variants, no variant is registered."""
    if not variants:
        return "nothing to show: none of the exhibits is named after a variant"
    names = ", ".join(f"{name.lower()}.yaml" for name in variants)
    one = len(variants) == 1
    which, own = ("this scenario", variants[0]) if one else ("such a scenario", "the name of its variant")
    return (
        f"nothing to show: none of the exhibits is named {names}; write {which}, with protocol.variant: {own}, and "
        "give its folder by --exhibits"
    )
