"""The normal form of a failing run: its causes alone, each actor going on as long as it can. Nothing is run again for
it.

A failing schedule has dozens of steps, most of which have nothing to do with the failure, in an order that jumps
about. What matters is the *causal past* of the failure: for a hang everything, for a wrong value what its host knew.
A person can read these steps in an order that agrees with theirs and switches actors seldom. Since they depend on the
class of the run alone, they are equal for every schedule that shows the same. `fingerprint` makes a short name of it.

A livelock has thousands of steps all the same. `folded` is the schedule as it is printed, with what repeats itself
counted; what is replayed is the whole list.

Prior art: Godefroid's trace normal forms; Elle's and Lincheck's minimal explanations.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence

from dpsim.contract.schedule import actor
from dpsim.contract.words import counted, times
from dpsim.explore.order import Step

NUMBERS = re.compile(r"(?<=[\[#])\d+")
"""Of a label: which visit of a site, which op of a communicator. Steps that differ in these alone are alike."""
PERIOD = 64
SAVED = 4
"""Fewer lines are not worth a fold."""


def normal_form(steps: Sequence[Step], causes: int | None = None) -> list[Step]:
    """The steps in `causes` (default: all), ordered so that actors change seldom. Goes on with the present actor while
    it has a step whose causes are all there, else takes the least label.
    """
    left = [step for step in steps if causes is None or causes & step.bit]
    wanted = 0
    for step in left:
        wanted |= step.bit
    done, order, now = 0, [], ""
    while left:
        enabled = [step for step in left if not step.causes & wanted & ~done & ~step.bit]
        own = [step for step in enabled if actor(step.label) == now]
        step = min(own or enabled, key=lambda one: one.label)
        left.remove(step)
        order.append(step)
        done |= step.bit
        now = actor(step.label)
    return order


def switches(labels: Sequence[str]) -> int:
    """How often the actor changes."""
    return sum(actor(one) != actor(other) for one, other in itertools.pairwise(labels))


def fingerprint(what: str, labels: Sequence[str]) -> str:
    """A short name of a failure: what failed, and the normal form of the steps that led there.

    >>> fingerprint("HANG", ["rank 0 poll[0]"]), fingerprint("HANG", ["rank 1 poll[0]"])
    ('c4c77a9f', '443b0721')
    """
    return hashlib.sha256("\n".join([what, *labels]).encode()).hexdigest()[:8]


def folded(labels: Sequence[str]) -> list[str]:
    """Lines for a schedule. Steps that come again and again, but for their numbers, are shown once and counted.

    >>> folded([f"rank 0 poll[{number}]" for number in range(900)])
    ['rank 0 poll[0]', '... this step 899 times more, up to rank 0 poll[899]']
    """
    alike = [NUMBERS.sub("", label) for label in labels]
    lines, at = list[str](), 0
    while at < len(labels):
        period, again = max(
            ((period, _again(alike, at, period)) for period in range(1, PERIOD + 1)),
            key=lambda found: (found[0] * found[1], -found[0]),
        )
        if period * again < SAVED + 1:
            lines.append(labels[at])
            at += 1
            continue
        lines += labels[at : at + period]
        at += period * (again + 1)
        what = "this step" if period == 1 else f"these {counted(period, 'step')}"
        lines.append(f"... {what} {times(again)} more, up to {labels[at - 1]}")
    return lines


def _again(alike: Sequence[str], at: int, period: int) -> int:
    """How often the steps of a period from there on come again at once."""
    end = at + period
    while end < len(alike) and alike[end] == alike[end - period]:
        end += 1
    return (end - at) // period - 1
