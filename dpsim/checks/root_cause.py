"""Root causes: who is behind a message that never comes, where an actor has gone or stands still outside of any op.

Nothing says who should have sent a message. But letters tell who talks with whom: an actor that waits for one hears
from those that sent to this mailbox before, and from those that it wrote to itself. Through others that wait for
messages the way goes on, until it comes to one that died, raised, or stands in no op at all.

    frontend.0 (get outputs) <- engine.0 (idle input) <- coordinator, which died

Of several ways the shortest counts. Who never had a letter of anybody is behind nothing: that would be a guess.
"""

from __future__ import annotations

from collections import deque

from dpsim.contract.ops import KIND, POST_MAILBOX, POST_TO, STREAM, TAKE_MAILBOX, THREAD, RawRecord
from dpsim.contract.world import Run

GONE = ("died", "raised")

RETURNED = frozenset({"learned", "post", "decision", "probe", "watch", "abort"})
"""Records behind which a host goes on, with the next op or for ever."""

ON_STREAMS = frozenset(
    {"launch", "alloc", "free", "used", "fresh", "mark", "wait", "capture", "kept", "replay", "read"}
)


def root_causes(run: Run) -> dict[int, tuple[int, ...]]:
    """For each actor that waits for a message in vain: the way from it, itself included, to the one behind it. Empty
    where nobody has gone or stands outside of an op.
    """
    lasts = [_lasts(journal) for journal in run.journals]
    ends = {actor for actor, end in enumerate(run.ends) if end in GONE}
    ends |= {actor for actor, end in enumerate(run.ends) if end == "blocked" and _outside(run, actor, lasts[actor])}
    if not ends:
        return {}
    waits = {
        actor: [raw[TAKE_MAILBOX] for raw in own]
        for actor, own in enumerate(lasts)
        if actor not in ends and own and all(raw[KIND] == "take" for raw in own)
    }
    hears = _hears(run, waits)
    ways = {actor: _way(actor, hears, ends) for actor in waits}
    return {actor: way for actor, way in ways.items() if way}


def _lasts(journal: list[RawRecord]) -> list[RawRecord]:
    """The last record of each host thread that has not ended. Injections are none."""
    lasts: dict[str, RawRecord] = {}
    for raw in journal:
        if raw[KIND] == "ended":
            lasts.pop(raw[THREAD], None)
        elif raw[KIND] != "injected":
            lasts[raw[THREAD]] = raw
    return list(lasts.values())


def _outside(run: Run, actor: int, lasts: list[RawRecord]) -> bool:
    """Whether a thread of its host stands between two ops; another one may wait for messages as ever. Where a device
    has work, it may stand behind the last one for that.
    """
    return any(raw[KIND] in RETURNED for raw in lasts) and not any(
        raw[KIND] in ON_STREAMS or (raw[KIND] in ("collective", "transfer") and raw[STREAM] is not None)
        for raw in run.journals[actor]
    )


def _hears(run: Run, waits: dict[int, list[str]]) -> dict[int, list[int]]:
    """From whom each actor that waits may hear: those that sent to this mailbox, then those that it wrote to."""
    heard: dict[int, dict[int, None]] = {actor: {} for actor in waits}
    wrote: dict[int, dict[int, None]] = {actor: {} for actor in waits}
    for sender, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "post":
                if raw[POST_MAILBOX] in waits.get(raw[POST_TO], ()):
                    heard[raw[POST_TO]][sender] = None
                if sender in waits:
                    wrote[sender][raw[POST_TO]] = None
    return {actor: list(heard[actor] | wrote[actor]) for actor in waits}


def _way(start: int, hears: dict[int, list[int]], ends: set[int]) -> tuple[int, ...]:
    """The shortest way to an end, in breadth first; empty if there is none."""
    queue: deque[tuple[int, ...]] = deque([(start,)])
    seen = {start}
    while queue:
        way = queue.popleft()
        if way[-1] in ends:
            return way
        for other in hears.get(way[-1], ()):
            if other not in seen:
                seen.add(other)
                queue.append((*way, other))
    return ()
