"""OpPlaces: predicts an actor's next op from places in all journals that are similar to the end of the actor's one.

    rank 0    size.receive, hidden.receive, answer      size.receive, hidden.receive, answer
    rank 1    size.receive, hidden.receive, answer      size.receive, hidden.receive          <- which op is next?

    OpPlaces(run_index).next_op(last)     # answer, as at both similar places

A place is similar if the ops before it equal the last ops of the actor. Two ops are equal here if their kind, their
site without digits, and the first word of their result are equal. Only the places with the longest equal sequence
count. The prediction is valid only if the same op follows at all of these places, after the same number of steps.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.contract.kinds import ENDS, SHARED
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, SITE, STEP, THREAD, RawRecord

LONGEST = 32
"""The largest number of ops that the module compares before a place."""

NO_OP = SHARED | {"probe"}
"""Kinds of record that are no op of a program: results of ops, planted faults and other notes."""

Token: TypeAlias = tuple[str, str, Any]
"""An op without its numbers: its kind, its site, and one word for the value that it returned."""


class OpToken(NamedTuple):
    """An op of a host thread, with its raw record."""

    token: Token
    raw: RawRecord


class NextOp(NamedTuple):
    """The op after a similar place, and the step in which the actor would issue it."""

    op: OpToken
    step: int


class OpPlaces:
    """The ops of all threads of a run, indexed by kind and site."""

    def __init__(self, run_index: RunIndex) -> None:
        self._ops: dict[tuple[int, str], list[OpToken]] = {}
        self._at: dict[tuple[str, str], list[tuple[list[OpToken], int]]] = {}
        for rank, journal in enumerate(run_index.run.journals):
            for thread in dict.fromkeys(raw[THREAD] for raw in journal):
                ops = self._ops[rank, thread] = _ops(journal, thread)
                for at, op in enumerate(ops):
                    self._at.setdefault(op.token[:2], []).append((ops, at))

    def continues(self, last: Entry) -> bool:
        """Returns whether the actor of this last record had more to do, judging by other threads.

        Other threads must have issued the same ops in the same step. All of them must have issued a further op.
        """
        own = self._ops[last.rank, last.raw[THREAD]]
        alike = self._at[own[-1].token[:2]] if own else []
        row = _row(own, len(own) - 1) if alike else []
        places = [(ops, at) for ops, at in alike if ops is not own and _row(ops, at) == row]
        return bool(places) and all(at + 1 < len(ops) and ops[at + 1].token[0] not in ENDS for ops, at in places)

    def next_op(self, last: Entry) -> NextOp | None:
        """Returns the op that follows all places similar to the record `last`. After an exception, the op before it
        counts.

        None if the similar places continue differently, if there is none, or if the program ended there.
        """
        whole = self._ops[last.rank, last.raw[THREAD]]
        own = whole[:-1] if whole and whole[-1].token[0] == "raised" else whole
        best, found = 0, list[NextOp]()
        for ops, at in self._at[own[-1].token[:2]] if own else ():
            if at + 1 < len(ops) and not (ops is whole and at + 1 == len(own)):
                alike = _alike(own, ops, at)
                if alike > best:
                    best, found = alike, []
                if alike == best:
                    found.append(NextOp(ops[at + 1], own[-1].raw[STEP] + ops[at + 1].raw[STEP] - ops[at].raw[STEP]))
        plain = len({(one.op.token[:2], one.step) for one in found}) == 1
        return found[0] if plain and found[0].op.token[0] not in ENDS else None


def _ops(journal: list[RawRecord], thread: str) -> list[OpToken]:
    learned = {raw[ADDRESS]: _word(raw[LEARNED_OUTCOME]) for raw in journal if raw[KIND] == "learned"}
    return [
        OpToken((raw[KIND], form(raw[SITE]), learned.get(raw[ADDRESS])), raw)
        for raw in journal
        if raw[THREAD] == thread and raw[KIND] not in NO_OP
    ]


def _row(ops: list[OpToken], at: int) -> list[tuple[int, Token]]:
    step, row = ops[at].raw[STEP], list[tuple[int, Token]]()
    while at >= 0 and ops[at].raw[STEP] == step:
        row.append((step, ops[at].token))
        at -= 1
    return row


def _word(outcome: Any) -> Any:
    """Returns a short form of a returned value: the first word of a message, a bool, or else the name of the type."""
    if isinstance(outcome, tuple) and outcome and isinstance(outcome[0], str):
        return outcome[0]
    return outcome if isinstance(outcome, bool) else type(outcome).__name__


@lru_cache(maxsize=4096)
def form(site: str) -> str:
    """Returns a name with each number replaced by `#`.

    >>> form("spawn.worker.12")
    'spawn.worker.#'
    """
    return re.sub(r"\d+", "#", site)


def _alike(own: list[OpToken], ops: list[OpToken], at: int) -> int:
    """Returns how many ops at the end of `own` equal the ops of another list up to index `at`.

    The result is one larger if both lists begin there. The result of the last op of `own` may be missing.
    """
    last, there = own[-1].token, ops[at].token
    if last[:2] != there[:2] or (last[2] is not None and last[2] != there[2]):
        return 0
    most = min(len(own), at + 1, LONGEST)
    whole = most + (len(own) == at + 1)
    return next((count for count in range(1, most) if own[-1 - count].token != ops[at - count].token), whole)
