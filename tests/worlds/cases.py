"""Lists the cases that tests explore, by name, and the numbers of their schedules where brute force can count them.

`COUNTED` maps a name to its numbers of schedules, classes, outcomes and failing schedules, which `brute` counted one by
one. An optimal partial order reduction runs one schedule of each class. An explorer must see all outcomes before it
calls a world proven.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds import (
    agreement,
    cross_pg,
    dbo_event,
    deep_bracket,
    dp_wave,
    event_query,
    graphs,
    kills,
    last_class,
    pipeline,
    pp_slot,
    residency,
    threads,
    wake_pause,
)
from tests.worlds.case import Case, unrelated

_SMALL_PIPELINE = pipeline.Scope((pipeline.Request(0, 3, 2), pipeline.Request(0, 11, 2)), stages=2, slots=1, steps=4)
_TALL_PIPELINE = pipeline.Scope((pipeline.Request(0, 3, 3), pipeline.Request(1, 11, 2)), stages=3, slots=2, steps=8)
_THREE_STAGES = pipeline.Scope((pipeline.Request(0, 3, 2), pipeline.Request(1, 11, 2)), stages=3, slots=2, steps=4)

_SHAPED = [make(bug=bug) for make in (pp_slot.case, dbo_event.case, cross_pg.case) for bug in (False, True)]
_SHAPED += [make(bug=bug) for make in (dp_wave.case, deep_bracket.case) for bug in (False, True)]

_CASES = [
    *_SHAPED,
    *[unrelated(case) for case in _SHAPED],
    *[unrelated(make(bug=True), 1) for make in (cross_pg.case, deep_bracket.case)],
    *[dp_wave.case(ranks, steps, bug) for ranks, steps in ((2, 1), (2, 3), (3, 1), (3, 2)) for bug in (False, True)],
    *[dbo_event.case(1, 2, bug, memory=True) for bug in (False, True)],
    *[dbo_event.case(2, 1, bug) for bug in (False, True)],
    *[cross_pg.case(2, "device", bug) for bug in (False, True)],
    *[cross_pg.case(3, "host", bug) for bug in (False, True)],
    *[deep_bracket.case(1, 1, 2, bug) for bug in (False, True)],
    *[deep_bracket.case(6, 2, 6, bug) for bug in (False, True)],
    *[wake_pause.case(2, steps) for steps in (1, 2, 3)],
    *[wake_pause.case(2, steps, bug=True) for steps in (2, 3)],
    *[wake_pause.case(3, steps) for steps in (1, 2, 3)],
    *[wake_pause.case(3, steps, bug=True) for steps in (2, 3)],
    wake_pause.case(2, 1, 2),
    *[kills.case(2, 4, domain, bug) for domain in ("host", "device") for bug in (False, True)],
    kills.pipeline(_SMALL_PIPELINE),
    *[residency.case(ranks, slots) for ranks in (2, 3) for slots in (1, 2)],
    residency.case(2, 1, ("main", "main")),
    residency.mortal(1),
    residency.mortal(2),
    residency.case(2, 1, opposite=True),
    *[
        agreement.case(ranks, steps, domain, bug)
        for ranks, steps in ((2, 3), (3, 4))
        for domain in ("host", "device")
        for bug in (False, True)
    ],
    agreement.case(2, 2, memory=True),
    *[pipeline.case(bug=bug) for bug in pipeline.BUGS],
    pipeline.case(_TALL_PIPELINE),
    pipeline.case(_THREE_STAGES),
    *[event_query.case(bug=bug) for bug in (False, True)],
    *[graphs.turns(bug=bug, memory=memory) for memory in (False, True) for bug in (False, True)],
    graphs.turns(2, 1),
    *[graphs.recv(bug=bug) for bug in (False, True)],
    *[graphs.mortal(bug=bug) for bug in (False, True)],
    *[threads.baton(bug=bug) for bug in (False, True)],
    *[threads.wake(bug) for bug in (False, True)],
    threads.mortal(),
    last_class.case(None),
    *[last_class.case(target) for target in last_class.targets()],
]

CASES: dict[str, Case] = {case.name: case for case in _CASES}
assert len(CASES) == len(_CASES), "two worlds have the same name"

COUNTED: dict[str, tuple[int, int, int, int]] = {
    "pp_slot_free": (99, 2, 2, 0),
    "pp_slot_free bug": (1255, 3, 3, 31),
    "dbo_event_order 1x2": (3, 3, 3, 0),
    "dbo_event_order 1x2 bug": (3, 3, 3, 2),
    "dbo_event_order 1x2 memory": (9, 3, 3, 0),
    "dbo_event_order 1x2 memory bug": (19, 5, 5, 15),
    "dbo_event_order 2x1": (24, 4, 4, 0),
    "dbo_event_order 2x1 bug": (24, 4, 4, 18),
    "cross_pg_order host 2": (24, 4, 4, 0),
    "cross_pg_order host 2 bug": (24, 4, 4, 12),
    "cross_pg_order host 2 bug +1": (360, 4, 4, 180),
    "cross_pg_order device 2": (24, 4, 4, 0),
    "cross_pg_order device 2 bug": (24, 4, 4, 12),
    "cross_pg_order host 3": (720, 8, 8, 0),
    "cross_pg_order host 3 bug": (720, 8, 8, 540),
    "dp_wave_skip 2x1": (24, 4, 4, 0),
    "dp_wave_skip 2x1 bug": (24, 4, 4, 12),
    "dp_wave_skip 2x2": (120, 9, 9, 0),
    "dp_wave_skip 2x2 bug": (132, 9, 9, 80),
    "dp_wave_skip 2x3": (448, 16, 16, 0),
    "dp_wave_skip 2x3 bug": (584, 16, 16, 380),
    "dp_wave_skip 3x1": (720, 8, 8, 0),
    "dp_wave_skip 3x1 bug": (720, 8, 8, 540),
    "dp_wave_skip 3x2": (18144, 27, 27, 0),
    "deep_bracket 0 decoys gap 1": (204, 6, 6, 0),
    "deep_bracket 0 decoys gap 1 bug": (204, 6, 6, 26),
    "deep_bracket 0 decoys gap 1 bug +1": (9045, 6, 6, 1170),
    "deep_bracket 1 decoys gap 1": (9045, 6, 6, 0),
    "deep_bracket 1 decoys gap 1 bug": (9045, 6, 6, 1170),
    "wake_pause 2x1": (30, 3, 3, 0),
    "wake_pause 2x1 dup 2": (140, 4, 4, 0),
    "wake_pause 2x2": (334, 9, 9, 0),
    "wake_pause 2x2 bug": (467, 10, 10, 166),
    "wake_pause 2x3": (1648, 21, 21, 0),
    "wake_pause 2x3 bug": (2573, 23, 23, 727),
    "wake_pause 3x1": (630, 3, 3, 0),
    "kill host 2x4": (9, 9, 9, 0),
    "kill host 2x4 bug": (16, 10, 10, 2),
    "kill device 2x4": (18, 18, 10, 0),
    "kill device 2x4 bug": (30, 19, 11, 3),
    "kill pipeline 2x4": (256, 148, 4, 0),
    "residency 2 ranks 1 slots 2 streams": (52, 4, 2, 4),
    "residency 2 ranks 2 slots 2 streams": (1120, 14, 1, 0),
    "residency 3 ranks 1 slots 2 streams": (6516, 8, 2, 36),
    "residency 2 ranks 1 slots 1 streams": (24, 1, 1, 0),
    "residency 2 ranks 1 slots 2 streams kill": (11403, 40, 4, 0),
    "residency 2 ranks 1 slots 2 streams opposite": (52, 4, 2, 4),
    "agreement host 2x3": (1, 1, 1, 0),
    "agreement host 2x3 bug": (1, 1, 1, 1),
    "agreement device 2x3": (1, 1, 1, 0),
    "agreement device 2x3 bug": (1, 1, 1, 1),
    "agreement host 3x4": (1, 1, 1, 0),
    "agreement host 3x4 bug": (1, 1, 1, 1),
    "agreement device 3x4": (1, 1, 1, 0),
    "agreement device 3x4 bug": (1, 1, 1, 1),
    "agreement host 2x2 memory": (24, 1, 1, 0),
    "pipeline 2x6": (128, 128, 1, 0),
    "pipeline 2x6 bug generation": (128, 128, 1, 128),
    "pipeline 2x6 bug record_stream": (128, 128, 1, 128),
    "pipeline 3x4": (4096, 4096, 1, 0),
    "event_query 3": (10, 4, 4, 0),
    "event_query 3 bug": (10, 4, 4, 5),
    "graph turns 1x2": (3, 3, 3, 0),
    "graph turns 1x2 bug": (3, 3, 3, 3),
    "graph turns 1x2 memory": (21, 3, 3, 0),
    "graph turns 1x2 memory bug": (165, 15, 15, 165),
    "graph turns 2x1": (24, 4, 4, 0),
    "graph recv 2": (160, 7, 3, 0),
    "graph recv 2 bug": (282, 20, 11, 174),
    "graph kill 2x2": (10, 10, 6, 0),
    "graph kill 2x2 bug": (18, 11, 7, 3),
    "threads baton 1": (142, 142, 67, 0),
    "threads baton 1 bug": (95, 95, 50, 22),
    "threads wake": (15, 15, 10, 0),
    "threads wake bug": (13, 13, 9, 1),
    "threads wake kill": (77, 77, 51, 0),
    "last_class 2 polls healthy": (30, 9, 9, 0),
    "last_class 2 polls target (0, 0)": (30, 9, 9, 3),
    "last_class 2 polls target (0, 1)": (30, 9, 9, 2),
    "last_class 2 polls target (0, 2)": (30, 9, 9, 1),
    "last_class 2 polls target (1, 0)": (30, 9, 9, 5),
    "last_class 2 polls target (1, 1)": (30, 9, 9, 5),
    "last_class 2 polls target (1, 2)": (30, 9, 9, 2),
    "last_class 2 polls target (2, 0)": (30, 9, 9, 4),
    "last_class 2 polls target (2, 1)": (30, 9, 9, 5),
    "last_class 2 polls target (2, 2)": (30, 9, 9, 3),
}
"""Counts of cases with at most 20,000 schedules. In pipelines the machine draws whether the root of a broadcast waits,
at the time when the root may have to.
"""

DRAWN = [name for name in CASES if "pipeline" in name or "recv" in name]
"""Cases with draws. A draw decides that an op waits though it need not. DPOR runs only few of the classes in which an
op waits.
"""

LARGE = 10_000
"""The largest number of schedules of a case of the slow suite."""


def by_schedules(fast: int) -> list[Any]:
    """Returns the names of COUNTED for a test, which is quick up to `fast` schedules, slow up to LARGE, and else
    nightly.
    """

    def marks(schedules: int) -> list[pytest.MarkDecorator]:
        return [] if schedules <= fast else [pytest.mark.slow if schedules <= LARGE else pytest.mark.nightly]

    return [pytest.param(name, marks=marks(row[0]), id=name) for name, row in COUNTED.items()]
