"""Rank state: describes where each rank of an unfinished run is, for `dpsim replay` with --until, --break and --step.

rank 0  step 5: waits in dp_cpu #5, for ranks 1 to 3
rank 1  step 5: is at poll look[0]                        # it takes a message or nothing, and waits for no rank
rank 2  step 5: is past tell[1], and may continue
rank 3  has ended
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.checks.blame.chain import ActorState, chain, text_of
from dpsim.checks.blame.debtors import only_itself, wait_of
from dpsim.checks.run_index import RunIndex
from dpsim.contract.kinds import HOW, RANK_ENDS
from dpsim.contract.ops import (
    ASK_HOW,
    KIND,
    ORDINAL,
    SITE,
    STEP,
    STORE_HOW,
    STORE_KEY,
    STORE_PORT,
    STORE_VALUE,
    TAKE_HOW,
    TAKE_MAILBOX,
    TAKE_TIMEOUT,
    RawRecord,
)
from dpsim.contract.words import ranks_text, with_services
from dpsim.contract.world import End, Run, World

NO_STEP = 1_000_000


def state_lines(world: World, journals: Sequence[Sequence[RawRecord]]) -> list[str]:
    """Returns where the ranks of an unfinished run are, with one line for ranks in the same state."""
    ends: list[End] = [own[-1][KIND] if own and own[-1][KIND] in RANK_ENDS else "blocked" for own in journals]
    size, services = world.size, world.services
    run = Run("sim", [[*own] for own in journals], ends, [0] * len(ends), 0, services=services)
    alike: dict[tuple[str, str], list[int]] = {}
    run_index = RunIndex.of(world, run)
    for state in chain(run_index).values():
        wait = wait_of(state)
        if wait is not None and only_itself(run_index, wait):
            state = state._replace(waits_for=())
        alike.setdefault(_step_and_words(state), []).append(state.actor)
    lines = [
        f"{ranks_text(ranks)}  {step}{_of_many(words) if len(ranks) > 1 else words}"
        for (step, words), ranks in alike.items()
    ]
    return [with_services(line, size, services) for line in lines]


_PLURAL = {"has": "have", "is": "are", "waits": "wait", "sleeps": "sleep", "stands": "stand"}


def _of_many(words: str) -> str:
    """Returns a state in the plural, for several ranks.
    >>> _of_many("has ended"), _of_many("raised"), _of_many("is before its first op")
    ('have ended', 'raised', 'are before their first op')
    """
    verb, space, rest = words.partition(" ")
    return _PLURAL.get(verb, verb) + space + rest.replace("before its first op", "before their first op")


def _step_and_words(state: ActorState) -> tuple[str, str]:
    raw = None if state.since is None else state.since.raw
    step = "" if raw is None or not 0 <= raw[STEP] < NO_STEP else f"step {raw[STEP]}: "
    if state.state == "stopped":
        place = "before its first op" if raw is None else f"past {raw[SITE]}[{raw[ORDINAL]}]"
        return step, f"is {place}, and may continue"
    if raw is not None and state.what and state.what == look_of(raw):
        # chain() counts this call as a wait, because it is the last record; but it returns at once
        return step, f"is at {raw[HOW[raw[KIND]]]} {raw[SITE]}[{raw[ORDINAL]}]"
    waits = f", for {ranks_text(state.waits_for)}" if state.waits_for else ""
    return step, f"{text_of(state)}{waits}"


def look_of(raw: RawRecord) -> str:
    """Returns what `chain` calls a call that never waits: a poll, a query, or one with timeout 0. Otherwise empty."""
    if raw[KIND] == "take" and (raw[TAKE_HOW] == "poll" or raw[TAKE_TIMEOUT] == 0):
        return str(raw[TAKE_MAILBOX])
    if raw[KIND] == "store" and raw[STORE_HOW] in ("get", "join") and raw[STORE_VALUE] == 0:
        return f"key {raw[STORE_KEY]}" if raw[STORE_HOW] == "get" else f"port {raw[STORE_PORT]}"
    return str(raw[SITE]) if raw[KIND] == "ask" and raw[ASK_HOW] == "query" else ""
