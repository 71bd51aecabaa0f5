"""The summary of a run that a user stopped: the op at which each rank is, read from its journal.

    rank 0 in step 3: poll inbox at awake[7], waves.py:26
    ranks 1, 2 in step 2: all_reduce int32[1] on dp_cpu #2 at agree[2], waves.py:29
    rank 3 ended
    rank 4 (u1) in step 3: wait flag baton.1 at turn[5], waves.py:40

In this summary, ranks at the same place share a line. A rank with several running threads has one place for each. The
place is the last op that the thread issued. The thread waits in it, or is on its way to the next op. A replay of a
graph counts as one op.

If dpsim itself ended the run, the summary has at most FEW lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.kinds import ENDS, NO_ACTS
from dpsim.contract.ops import KIND, MAIN, THREAD, THREAD_HOW, THREAD_NAME, RawRecord, as_record
from dpsim.contract.rules.replay_frame import replay_at
from dpsim.contract.words import counted, ranks_text, short, step_words, with_services

FEW = 8


def whereabouts(journals: Sequence[Sequence[RawRecord]], most: int | None = None, services: Sequence[str] = ()) -> str:
    """At most `most` lines of places, and a count of other ranks. Journals of `services` follow those of ranks."""
    places: dict[str, list[int]] = {}
    for rank, journal in enumerate(journals):
        for place in _places(journal):
            places.setdefault(place, []).append(rank)
    lines = [f"{ranks_text(ranks)} {place}" for place, ranks in places.items()]
    if most is not None and len(lines) > most:
        elsewhere = sum(len(ranks) for ranks in [*places.values()][most:])
        lines[most:] = [f"and {counted(elsewhere, 'rank')} elsewhere"]
    return with_services("\n".join(lines), len(journals) - len(services), services)


def _places(journal: Sequence[RawRecord]) -> list[str]:
    started = {raw[THREAD_NAME]: None for raw in journal if raw[KIND] == "thread" and raw[THREAD_HOW] == "start"}
    if not started or journal[-1][KIND] == "finished":
        return [_place(journal)]
    own = {name: [raw for raw in journal if raw[THREAD] == name] for name in started}
    places = [f"({name}) {_place(records)}" for name, records in own.items()]
    main = _place([raw for raw in journal if raw[THREAD] == MAIN])
    return [main, *[place for place in places if not place.endswith(" ended")]]


def _place(journal: Sequence[RawRecord]) -> str:
    if journal and journal[-1][KIND] in ENDS - {"raised"}:
        return "ended"
    last = next((at for at in range(len(journal) - 1, -1, -1) if journal[at][KIND] not in NO_ACTS), None)
    if last is None:
        return "before the first op"
    of = replay_at(journal, last)
    record = as_record(journal[last if of is None else of])
    what = short(record.describe(), 80)
    step = step_words(f"in step {record.step}")
    return f"{step}: {what} at {record.site}[{record.ordinal}], {record.where}"
