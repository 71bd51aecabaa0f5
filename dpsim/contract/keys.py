"""The keys that messages of programs name, each with its meaning. `dpsim show I-EL-7` prints the meaning of a key.

    register_keys({"RULE-1": "Every rank greets first."})

An error message of a program may end with a key such as "RULE-1", for the rule that a rank broke. The module that
registers the program also registers its keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.contract.registry import load_all

_keys: dict[str, str] = {}


def register_keys(meanings: Mapping[str, str]) -> None:
    """Adds keys. Raises ValueError for a key that already has another meaning.

    >>> register_keys({"DOCTEST-1": "A rank greets."})
    >>> register_keys({"DOCTEST-1": "No rank greets."})
    Traceback (most recent call last):
    ValueError: key DOCTEST-1: registered already as 'A rank greets.'; give the other one another name
    """
    for key, meaning in meanings.items():
        if _keys.setdefault(key, meaning) != meaning:
            raise ValueError(f"key {key}: registered already as {_keys[key]!r}; give the other one another name")


def keys() -> Mapping[str, str]:
    """Returns all keys of all installed packages of programs."""
    load_all()
    return _keys
