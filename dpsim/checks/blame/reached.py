"""Reached: names the op that an actor was about to issue when it died or stopped. A report points there.

    rank 0    size.receive, hidden.receive, answer      size.receive, hidden.receive, answer
    rank 1    size.receive, hidden.receive, answer      size.receive, hidden.receive          <- it died here

Here rank 1 died when it was about to issue `answer`, because ranks always issue it after these two receives (`places`).

If `places` finds no such op, the report names the actor's last record. The step is then the one that the program set
last, if the run recorded it (`Run.steps_set`).
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.blame.places import OpPlaces
from dpsim.checks.finding import Culprit
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import learns
from dpsim.contract.ops import (
    INJECTED_WHAT,
    KIND,
    SITE,
    STEP,
    THREAD,
    WHERE,
    as_record,
)


def reached(run_index: RunIndex, actor: int) -> Culprit:
    """Returns the place at which an actor died or stopped: the op that it was about to issue, or else its
    last record.
    """
    journal, set_last = run_index.run.journals[actor], _set_last(run_index, actor)
    died = next((raw for raw in reversed(journal) if raw[KIND] == "injected" and raw[INJECTED_WHAT] == "die"), None)
    if died is not None:  # a planted death has a record of the op that the actor reached
        return Culprit.of(actor, as_record(died))
    last = _last(run_index, actor)
    if last is None:
        return Culprit(actor, -1 if set_last is None else set_last, "start", "")
    if _died_waiting(run_index, last):
        return run_index.culprit(last)
    predicted = _predicted(run_index, last)
    if set_last is None or (predicted is not None and predicted.step == set_last):
        return predicted or run_index.culprit(last)
    return replace(run_index.culprit(last), step=set_last, site=f"after {last.raw[SITE]}")


def _last(run_index: RunIndex, actor: int) -> Entry | None:
    """Returns the last record of an actor. If all host threads but one wait in ops, it is the last record of that
    thread.
    """
    free = [one for one in run_index.living(actor) if not learns(one.raw)] if actor in run_index.threaded else []
    return free[0] if len(free) == 1 and run_index.end(actor) == "blocked" else run_index.last(actor)


def _died_waiting(run_index: RunIndex, last: Entry) -> bool:
    return learns(last.raw) and run_index.end(last.rank) == "died"


def _set_last(run_index: RunIndex, actor: int) -> int | None:
    """Returns the step that an actor's program set after its last record; None if it set none, or if that is unknown.

    With several host threads another thread may have set the step, so the result is None.
    """
    steps, journal = run_index.run.steps_set, run_index.run.journals[actor]
    most = max((raw[STEP] for raw in journal if raw[KIND] != "injected"), default=-1)
    return steps[actor] if steps and steps[actor] > most and actor not in run_index.threaded else None


def _predicted(run_index: RunIndex, last: Entry) -> Culprit | None:
    found = OpPlaces(run_index).next_op(last)
    if found is None:
        return None
    step = max(last.step, found.step)
    steps = run_index.run.steps_set
    if steps and step > steps[last.rank]:  # its program did not set this step
        return None
    return Culprit(last.rank, step, found.op.raw[SITE], found.op.raw[WHERE], last.raw[THREAD])
