"""The op that an actor reached and did not issue, by what it and others did at similar places.

    rank 0    size.receive, hidden.receive, answer      size.receive, hidden.receive, answer
    rank 1    size.receive, hidden.receive, answer      size.receive, hidden.receive          <- it died here

Rank 1 was about to answer: after a `size.receive` and a `hidden.receive`, ranks always answer (`places`). Otherwise the
actor may owe a message. Another actor sleeps in a mailbox to which it never got a post. Actors of the same role posted
to such a mailbox in only one step.

    engine.0   met   spawn.worker.0        rank 0   learned its spawn
    engine.1   met                         rank 1   sleeps in spawn         engine.1 was about to spawn it

Otherwise the actor was at its last record, in the step that its program set, if the run knows it (`Run.steps_set`).
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.blame.places import OpPlaces, form
from dpsim.checks.finding import Culprit
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.thread_records import awaited
from dpsim.contract.ops import (
    INJECTED_WHAT,
    KIND,
    POST_MAILBOX,
    POST_TO,
    SITE,
    STEP,
    TAKE_MAILBOX,
    THREAD,
    WHERE,
    as_record,
)


def reached(run_index: RunIndex, actor: int) -> Culprit:
    """The place where an actor died or stands: the op that it reached, if that is clear, and otherwise its last
    record.
    """
    journal, set_last = run_index.run.journals[actor], _set_last(run_index, actor)
    died = next((raw for raw in reversed(journal) if raw[KIND] == "injected" and raw[INJECTED_WHAT] == "die"), None)
    if died is not None:  # a planted death has a record of the op that the actor reached
        return Culprit.of(actor, as_record(died))
    last = _last(run_index, actor)
    if last is None:
        return Culprit(actor, -1 if set_last is None else set_last, "start", "")
    if _stands(run_index, last):
        return run_index.culprit(last)
    told = _told(run_index, last) or _owed(run_index, last)
    if set_last is None or (told is not None and told.step == set_last):
        return told or run_index.culprit(last)
    return replace(run_index.culprit(last), step=set_last, site=f"after {last.raw[SITE]}")


def _last(run_index: RunIndex, actor: int) -> Entry | None:
    """The last record of an actor. If all threads but one wait in ops, it is the last record of that one."""
    free = [one for one in run_index.living(actor) if not awaited(one.raw)] if actor in run_index.threaded else []
    return free[0] if len(free) == 1 and run_index.end(actor) == "blocked" else run_index.last(actor)


def _stands(run_index: RunIndex, last: Entry) -> bool:
    """Whether an actor died in an op that it awaits."""
    return awaited(last.raw) and run_index.end(last.rank) == "died"


def _set_last(run_index: RunIndex, actor: int) -> int | None:
    """The step that the program of an actor set after its last record; None if there is none, or it is unknown. With
    several host threads, another thread may have set it.
    """
    steps, journal = run_index.run.steps_set, run_index.run.journals[actor]
    most = max((raw[STEP] for raw in journal if raw[KIND] != "injected"), default=-1)
    return steps[actor] if steps and steps[actor] > most and actor not in run_index.threaded else None


def _told(run_index: RunIndex, last: Entry) -> Culprit | None:
    """The op that always follows a place similar to that of the last record."""
    found = OpPlaces(run_index).next_op(last)
    if found is None:
        return None
    step = max(last.step, found.step)
    steps = run_index.run.steps_set
    if steps and step > steps[last.rank]:  # its program did not set this step
        return None
    return Culprit(last.rank, step, found.op.raw[SITE], found.op.raw[WHERE], last.raw[THREAD])


def _owed(run_index: RunIndex, last: Entry) -> Culprit | None:
    """The message that an actor owes to a sleeping one, by the posts of others of its role to such a mailbox."""
    world, journals = run_index.world, run_index.run.journals
    role = form(world.actor(last.rank))
    posts = [raw for actor in range(len(journals)) for raw in journals[actor] if raw[KIND] == "post"]
    had = {(raw[POST_TO], raw[POST_MAILBOX]) for raw in posts}
    owed: dict[tuple[str, str], None] = {}
    for actor in range(len(journals)):
        own = run_index.last(actor)
        if own is not None and run_index.asleep(actor) and (actor, own.raw[TAKE_MAILBOX]) not in had:
            owed[form(world.actor(actor)), own.raw[TAKE_MAILBOX]] = None
    alike = [
        raw
        for actor in range(len(journals))
        if actor != last.rank and form(world.actor(actor)) == role
        for raw in journals[actor]
        if raw[KIND] == "post" and (form(world.actor(raw[POST_TO])), raw[POST_MAILBOX]) in owed
    ]
    if len({(form(raw[SITE]), raw[STEP]) for raw in alike}) != 1 or alike[0][STEP] < last.step:
        return None
    return Culprit(last.rank, alike[0][STEP], form(alike[0][SITE]), alike[0][WHERE], last.raw[THREAD])
