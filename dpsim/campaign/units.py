"""Units: executes a unit (some schedules of one program under one strategy) in any process, and merges the results.

    result = do(Unit(subject=0, strategy="dpor", seed=0, schedules=100, stop_at_first=True), subject)
    merge(total, result)

Units and results are plain data, with labels that mean the same in every process. The merged results equal those of one
search in one process: a class or failure that two units find counts once.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from dpsim.backend.journal.trouble import trouble
from dpsim.campaign.pasts import add
from dpsim.campaign.searches import search_subject
from dpsim.campaign.subject import Subject
from dpsim.contract.world import Lost
from dpsim.explore import Exploration, Outcomes, search
from dpsim.explore.estimate import added
from dpsim.explore.order import ClassKey, Labels
from dpsim.explore.strategies.dpor import Dpor
from dpsim.explore.strategies.frontier import WithinState
from dpsim.explore.strategies.places import ToTurn
from dpsim.explore.strategies.within import Within
from dpsim.sim.hosts.overtime import interrupted


@dataclass
class Unit:
    """A part of an exploration: `schedules` schedules of one subject. `state`: where DPOR continues, or the nodes of a
    search within bounds. `in_time`: first judge the timed run. `number`: in the order of units. `branch`: of DPOR's
    tree, or of the frontier. `lost`: how often its process died.
    """

    subject: int
    strategy: str
    seed: int
    schedules: int
    stop_at_first: bool
    state: Any = None
    lost: int = 0
    in_time: bool = False
    number: int = 0
    branch: int = 0


@dataclass
class UnitResult:
    """The result of a unit. `keys`: the class of each whole run. `over`: the strategy has nothing left. `asked`: what
    to try at nodes that other branches share. `share`: log2 of the runs' share of DPOR's tree. `whole`: neither the
    clock nor the machine cut the unit short, so a repetition gives the same result.
    """

    unit: Unit
    exploration: Exploration
    keys: list[bytes]
    exhausted: bool
    bounded: bool
    over: bool
    state: Any
    seconds: float
    whole: bool = True
    asked: Sequence[ToTurn] = ()
    share: float = -inf


def do(
    unit: Unit, subject: Subject, end: float | None = None, tick: Callable[[int], None] = lambda runs: None
) -> UnitResult:
    """Executes a unit. `end`: a monotonic time after which no run begins. `tick` receives the number of runs."""
    start = time.monotonic()
    chosen = search(unit.strategy, unit.seed, subject.longest)
    if isinstance(chosen, (Dpor, Within)) and unit.state is not None:
        chosen.resume(unit.state)
    words: dict[ClassKey, bytes] = {}
    keys: list[bytes] = []

    def note(so_far: Exploration) -> None:
        if len(so_far.fresh) > len(keys):
            key = chosen.current.order.class_key()
            if key not in words:
                words[key] = in_words(key, chosen.labels)
            keys.append(words[key])
        tick(so_far.runs)

    def expired() -> bool:
        return end is not None and time.monotonic() > end

    with nullcontext() if end is None else interrupted(expired):
        found = search_subject(
            subject,
            chosen,
            schedules=unit.schedules,
            stop_at_first=unit.stop_at_first,
            expired=expired,
            progress=note,
            in_time=unit.in_time,
        )
    found.classes = set()
    state = chosen.state() if isinstance(chosen, (Dpor, Within)) else None
    unit = replace(unit, state=bare(unit.state))
    stopped = bool(found.failures) and unit.stop_at_first
    taken = bool(found.lost or found.outgrown)
    ended = chosen.over if isinstance(chosen, (Dpor, Within)) else chosen.exhausted or chosen.bounded
    short = found.runs < unit.schedules and not stopped and not ended
    over, seconds = taken or (short and not expired()), time.monotonic() - start
    whole = not taken and not (short and expired())
    asked = [*chosen.asked] if isinstance(chosen, Dpor) else []
    share = added(chosen.shares) if isinstance(chosen, Dpor) else -inf
    return UnitResult(unit, found, keys, chosen.exhausted, chosen.bounded, over, state, seconds, whole, asked, share)


def bare(state: Any) -> Any:
    """Returns the initial state of a unit, without what follows from the results of others."""
    return state.bare() if isinstance(state, WithinState) else state


def in_words(key: ClassKey, labels: Labels) -> bytes:
    """Returns a digest of a class by its labels, equal in every process. For each step it includes only the last
    causes, from which the others follow.
    """
    ordered = sorted(key, key=lambda step: step[1].bit_count())  # a step has more causes than any of its causes has
    steps, known = 0, list[tuple[int, int]]()
    lines = list[tuple[str, list[str]]]()
    for bit, causes in ordered:
        left, last = causes & ~bit & steps, causes & ~bit & ~steps  # random choices are no steps, so all are included
        for other, before in reversed(known):
            if not left:
                break
            if left & other:
                last |= other
                left &= ~before
        lines.append((labels.named(bit)[0], sorted(labels.named(last))))
        if causes:
            steps |= bit
            known.append((bit, causes))
    return hashlib.sha256(repr(sorted(lines)).encode()).digest()[:12]


def merge(total: Exploration, result: UnitResult) -> None:
    """Adds the result of a unit."""
    for key in result.keys:
        total.fresh.append(key not in total.classes)
        total.classes.add(key)
    join(total, replace(result.exploration, fresh=[]))


def join(total: Exploration, one: Exploration) -> None:
    """Adds a result without its classes."""
    total.fresh += one.fresh
    for what, failure in one.failures.items():
        failure.first += total.runs
        known = total.failures.setdefault(what, failure)
        if known is not failure:
            known.add(failure)
    total.runs += one.runs
    total.redundant += one.redundant
    total.cut += one.cut
    total.unended += one.unended
    total.repeated += one.repeated
    total.longest = one.longest
    total.steps += one.steps
    total.idle += one.idle
    total.did |= one.did
    total.stood = one.stood or total.stood
    total.polls = total.polls or one.polls
    total.in_time = total.in_time or one.in_time
    total.bounds.update(one.bounds)
    total.outgrown |= one.outgrown
    total.lost = total.lost or one.lost
    total.races.update(one.races)
    total.probes.update(one.probes)
    total.decided.update(one.decided)
    add(total.pasts, one.pasts.items())
    if one.outcomes is not None:
        total.outcomes = total.outcomes or Outcomes()
        total.outcomes.join(one.outcomes)
    for planted, why in one.injected.items():  # an empty text, the smallest, means that it happened
        total.injected[planted] = min(why, total.injected.get(planted, why))


# ---- exceptions of other processes


def lost_by(error: Exception) -> Lost | None:
    """Returns what the machine lacked when this was raised; None if it is no problem of the machine."""
    lacked = str(error) if isinstance(error, Lost) else trouble(error)
    return Lost(lacked) if lacked else None


def portable(error: Exception) -> Exception:
    """Returns the exception, or a picklable replacement, with the lines of its traceback as a note."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is not type(error):
            raise TypeError
    except Exception:
        error = RuntimeError("".join(traceback.format_exception_only(error)).strip()).with_traceback(
            error.__traceback__
        )
    error.add_note("".join(["in a worker process:\n", *traceback.format_tb(error.__traceback__)]).rstrip())
    return error
