"""The normal form of a failing run: its causes alone, each actor going on as long as it can. Nothing is run again for
it.

A failing schedule has dozens of steps, most of which have nothing to do with the failure, in an order that jumps
about. What matters is the *causal past* of the failure: for a hang everything, for a wrong value what its host knew.
These steps, in an order that agrees with theirs and switches actors seldom, are what a person can read; and since
they depend on the class of the run alone, equal for every schedule that shows the same. `fingerprint` makes a short
name of it.

Prior art: Godefroid's trace normal forms; Elle's and Lincheck's minimal explanations.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

from dpsim.explore.order import Step
from dpsim.schedule import actor


def normal_form(steps: Sequence[Step], causes: int | None = None) -> list[Step]:
    """The steps in `causes` (default: all), ordered so that actors change seldom: go on with the present actor while
    it has a step whose causes are all there, else take the least label.
    """
    left = [step for step in steps if causes is None or causes & step.bit]
    wanted = 0
    for step in left:
        wanted |= step.bit
    done, order, now = 0, [], ""
    while left:
        able = [step for step in left if not step.causes & wanted & ~done & ~step.bit]
        own = [step for step in able if actor(step.label) == now]
        step = min(own or able, key=lambda one: one.label)
        left.remove(step)
        order.append(step)
        done |= step.bit
        now = actor(step.label)
    return order


def switches(labels: Sequence[str]) -> int:
    """How often the actor changes."""
    return sum(actor(one) != actor(other) for one, other in itertools.pairwise(labels))


def fingerprint(what: str, labels: Sequence[str]) -> str:
    """A short name of a failure: what failed, and the normal form of how it came to that.

    >>> fingerprint("HANG", ["rank 0 poll[0]"]), fingerprint("HANG", ["rank 1 poll[0]"])
    ('c4c77a9f', '443b0721')
    """
    return hashlib.sha256("\n".join([what, *labels]).encode()).hexdigest()[:8]
