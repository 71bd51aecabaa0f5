"""Deciding: finds the first decision in which the ranks of a recorded job differ.

    step 12   tokens   ranks 0, 1, 3 decided 8   rank 2 decided 5      ->  rank 2, by majority

A decision is a value that a program records with `dpsim.mark.decide`. The module compares decisions that have the same
step, label and group, in their order. A program without such marks has none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from dpsim.contract.recording import DECISION, STEP
from dpsim.contract.words import ranks_text
from dpsim.diagnose.dumps.entries import CallPlace
from dpsim.diagnose.recordings.reading import ProcessRecording


class Differed(NamedTuple):
    """A decision in which ranks differ. `ranks` is the minority; empty without a majority."""

    label: str
    step: int
    ranks: tuple[int, ...]
    concerned: tuple[int, ...]
    place: CallPlace
    said: str
    start: int


def first_difference(recordings: dict[int, ProcessRecording]) -> Differed | None:
    """Returns the earliest decision in which ranks of one group differ, or None."""
    met: defaultdict[tuple[int, str, str, int], dict[int, tuple[str, CallPlace, int]]] = defaultdict(dict)
    for rank, one in recordings.items():
        step, often = -1, Counter[tuple[int, str, str]]()
        for record in one.records:
            if record.kind == STEP:
                step = record.input_size
            elif record.kind == DECISION:
                group = one.groups[record.group].name if record.group in one.groups else ""
                key = step, record.label, group
                often[key] += 1
                met[(*key, often[key])][rank] = record.value, record.place, record.start
    differing = [
        (key, sides_by_rank)
        for key, sides_by_rank in met.items()
        if len({value for value, _, _ in sides_by_rank.values()}) > 1
    ]
    if not differing:
        return None
    (step, label, _, _), sides_by_rank = min(differing, key=lambda one: min(start for _, _, start in one[1].values()))
    return _differed(step, label, sides_by_rank)


def _differed(step: int, label: str, sides_by_rank: dict[int, tuple[str, CallPlace, int]]) -> Differed:
    counts = Counter(value for value, _, _ in sides_by_rank.values()).most_common()
    majority = counts[0][0] if len(counts) == 1 or counts[0][1] > counts[1][1] else None
    odd = (
        tuple(rank for rank, (value, _, _) in sides_by_rank.items() if value != majority)
        if majority is not None
        else ()
    )
    at = sides_by_rank[odd[0]] if odd else next(iter(sides_by_rank.values()))
    sides = "; ".join(
        f"{ranks_text([rank for rank, one in sides_by_rank.items() if one[0] == value])} decided {value}"
        for value, _ in counts[:3]
    )
    when = f" in step {step}" if step >= 0 else ""
    return Differed(label, step, odd, tuple(sides_by_rank), at[1], f"{label}{when}: {sides}", at[2])
