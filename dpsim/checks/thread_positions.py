"""Thread positions: numbers the ops of a step on a rank with several host threads, whatever the order of the threads.

    main      call #0   start a, b              join a, b   call #9
    a                   call #1   call #2
    b                   call #1   call #2

Findings are sorted by this number. So it must not depend on the order in which this run happened to schedule the
threads. It counts the earlier ops of the same thread in the step. It adds the ops of the starting thread before the
start, and the ops of each thread that this one has joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpsim.contract.ops import KIND, STEP, THREAD, THREAD_HOW, THREAD_NAME, RawRecord

NO_OP = ("probe", "injected")


def thread_positions(journal: Sequence[RawRecord]) -> list[int]:
    """Returns, for each record, the number of ops of its step before it."""
    clocks: dict[str, Counter[str]] = {}
    steps: dict[str, int] = {}
    joining: dict[str, str] = {}
    numbers = []
    for raw in journal:
        thread, step = raw[THREAD], raw[STEP]
        if steps.get(thread) != step:
            clocks[thread], steps[thread] = Counter(), step
        clock = clocks[thread]
        joined = joining.pop(thread, None)
        if joined is not None and steps.get(joined) == step:
            clock |= clocks[joined]
        numbers.append(clock.total())
        clock[thread] += raw[KIND] not in NO_OP
        if raw[KIND] == "thread":
            name = raw[THREAD_NAME]
            if raw[THREAD_HOW] == "join":
                joining[thread] = name
            else:
                clocks[name], steps[name] = clock.copy(), step
    return numbers
