"""First wrong: finds the first receive that got a value of another step, and the ranks that later raised because of it.

    first     wrong value: rank 2, step 2, hidden.receive got hidden.send of step 3; raised: step 8, ranks 0 to 2,
              WrongToken

A receive is wrong if its send belongs to another step, and earlier transfers between the two ranks had equal steps. The
second condition excludes programs in which a rank always receives values of an earlier step.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsim.contract.ops import COMMUNICATOR, KIND, OP, SITE, STEP, TRANSFER_PEER, RawRecord
from dpsim.contract.words import ranks_text
from dpsim.contract.world import Run


def first_wrong(run: Run) -> list[str]:
    """Returns two parts of a line: the wrong receive, and the exceptions. Empty without a wrong receive."""
    wrong = min(_wrong(run), default=None)
    if wrong is None:
        return []
    return [f"wrong value: {wrong[2]}", *_raised(run)]


def _wrong(run: Run) -> Iterator[tuple[int, int, str]]:
    """Yields the first wrong receive in each direction between two ranks: its step, its rank, and a text."""
    for (_, sender, receiver), (sends, receives) in _lines(run).items():
        equal = 0
        for send, receive in zip(sends, receives, strict=False):
            if send[STEP] == receive[STEP]:
                equal += 1
                continue
            if equal:
                got = f"{receive[SITE]} got {send[SITE]} of step {send[STEP]} from rank {sender}"
                yield receive[STEP], receiver, f"rank {receiver}, step {receive[STEP]}, {got}"
            break


def _lines(run: Run) -> dict[tuple[str, int, int], tuple[list[RawRecord], list[RawRecord]]]:
    """Returns (communicator, sender, receiver) -> its sends and receives, in order."""
    lines: dict[tuple[str, int, int], tuple[list[RawRecord], list[RawRecord]]] = {}
    for rank, journal in enumerate(run.journals):
        for raw in journal:
            if raw[KIND] == "transfer":
                sends, peer = raw[OP] == "send", raw[TRANSFER_PEER]
                pair = (rank, peer) if sends else (peer, rank)
                lines.setdefault((raw[COMMUNICATOR], *pair), ([], []))[not sends].append(raw)
    return lines


def _raised(run: Run) -> list[str]:
    """Returns the ranks that raised in the first step with an exception, and the exception."""
    lasts = [(rank, journal[-1]) for rank, journal in enumerate(run.journals) if journal]
    ends = [(raw[STEP], rank, raw[SITE]) for rank, raw in lasts if raw[KIND] == "raised"]
    if not ends:
        return []
    step, _, what = min(ends)
    return [f"raised: step {step}, {ranks_text(rank for at, rank, said in ends if (at, said) == (step, what))}, {what}"]
