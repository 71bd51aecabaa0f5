"""The normal form of a failing run: the steps that caused the failure, in an order with few switches between actors.

The steps that matter are the *causal past* of a failure: for a hang all, for a wrong value those that its host knew of.
`normal_form` orders them without a further run. It depends only on the class of the run, and `fingerprint` is its short
name. `folded` prints repeated steps, as of a livelock, in one line with a count.

Prior art: Godefroid's trace normal forms; Elle's and Lincheck's minimal explanations.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

from dpsim.contract.events import OPTIONS, actor, failing_rank
from dpsim.contract.words import counted, times
from dpsim.explore.order import Step

NUMBERS = re.compile(r"(?<=[\[#])\d+")
"""The numbers of a label: the visit of a site, the op of a communicator. Steps that differ only in these are alike."""
PERIOD = 64
SAVED = 4
"""`folded` leaves a repetition of fewer lines as it is."""


def normal_form(steps: Sequence[Step], causes: int | None = None) -> list[Step]:
    """Returns the steps in the mask `causes` (default: all), ordered so that actors change rarely. The order continues
    with the present actor while this one has a step whose causes are all there. Otherwise it takes the least label.
    """
    kept = [step for step in steps if causes is None or causes & step.bit]
    left = 0  # the bits of the steps that are not yet in the order
    for step in kept:
        left |= step.bit
    enabled = defaultdict[str, list[tuple[str, int]]](list)  # a heap for each actor
    waiting = defaultdict[int, list[int]](list)  # steps by the highest bit of their causes that are left

    def look(number: int) -> None:
        step = kept[number]
        missing = step.causes & left & ~step.bit
        if missing:
            waiting[missing.bit_length()].append(number)
        else:
            heappush(enabled[actor(step.label)], (step.label, number))

    for number in range(len(kept)):
        look(number)
    order, now = list[Step](), ""
    while len(order) < len(kept):
        step = kept[heappop(enabled[now] or min(filter(None, enabled.values())))[1]]
        order.append(step)
        left &= ~step.bit
        now = actor(step.label)
        for number in waiting.pop(step.bit.bit_length(), ()):
            look(number)
    return order


def many(words: Sequence[str]) -> str:
    """Returns how many choices a schedule has, and how many draws if it has any. A rank whose kernels raise is a draw.

    >>> many(["rank 3 has kernels that raise", "rank 0 poll[0]", "pp 0>1 #0: eager"]), many(["dp #0"])
    ('1 choice and 2 draws', '1 choice')
    """
    draws = sum(map(is_draw, words))
    return counted(len(words) - draws, "choice") + f" and {counted(draws, 'draw')}" * (draws > 0)


def is_draw(word: str) -> bool:
    """Whether a word of a schedule is a value that dpsim picked beside the order of events, and so no choice."""
    return word.rpartition(": ")[2] in OPTIONS or failing_rank(word) is not None


def switches(labels: Sequence[str]) -> int:
    """Returns how often the actor changes from one label to the next."""
    return sum(actor(one) != actor(other) for one, other in itertools.pairwise(labels))


def fingerprint(what: str, labels: Sequence[str]) -> str:
    """Returns a short name of a failure: of what failed, and of the normal form of its causes.

    >>> fingerprint("HANG", ["rank 0 poll[0]"]), fingerprint("HANG", ["rank 1 poll[0]"])
    ('c4c77a9f', '443b0721')
    """
    return hashlib.sha256("\n".join([what, *labels]).encode()).hexdigest()[:8]


def folded(labels: Sequence[str]) -> list[str]:
    """Returns the lines of a schedule. If steps repeat except for their numbers, one line shows them with a count.

    >>> folded([f"rank 0 poll[{number}]" for number in range(900)])
    ['rank 0 poll[0]', '... this choice 899 times more, up to rank 0 poll[899]']
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
        what = "this choice" if period == 1 else f"these {counted(period, 'choice')}"
        lines.append(f"... {what} {times(again)} more, up to {labels[at - 1]}")
    return lines


def _again(alike: Sequence[str], at: int, period: int) -> int:
    end = at + period
    while end < len(alike) and alike[end] == alike[end - period]:
        end += 1
    return (end - at) // period - 1
