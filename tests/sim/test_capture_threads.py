"""Tests which host thread may end a capture: the thread that began it, or any thread if the capture is relaxed.
Otherwise the call raises CUDA error 908.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.checks.judge import judge
from dpsim.contract.interface import CaptureError, Rank
from dpsim.contract.ops import CaptureMode
from dpsim.contract.program import Program
from dpsim.sim.backend import SimBackend
from tests.programs import set_to
from tests.sim.programs import filled, numbers, usual_world


class HandedOver(Program[Any]):
    """One thread begins a capture and launches a kernel in it; the thread `ender` ends it."""

    threaded = True

    def __init__(self, mode: CaptureMode, ender: str) -> None:
        self.mode, self.ender = mode, ender
        self.came: list[int] = []
        self.read: list[Any] = []

    async def run(self, rank: Rank, prepared: Any) -> None:
        main, graph = rank.stream("main"), rank.graph("g")
        x = filled(main, 5)
        block = graph.capture(main, mode=self.mode)
        await block.__aenter__()
        main.launch("set", set_to, writes=[x], args=(7,))

        async def end(rank: Rank) -> None:
            try:
                await block.__aexit__(None, None, None)
            except CaptureError as error:
                self.came.append(error.code)

        if self.ender == "main":
            await end(rank)
        else:
            await rank.start(self.ender, end).join("join")
        if not self.came:
            graph.replay(main, "go")
        self.read.append(numbers(await x.read("out")))


@pytest.mark.parametrize("choose", [None, lambda what, options: 0], ids=["timed", "first"])
@pytest.mark.parametrize(
    ("mode", "ender", "codes"),
    [
        ("global", "main", []),
        ("global", "other", [908]),
        ("thread_local", "other", [908]),
        ("relaxed", "other", []),
    ],
)
def test_the_thread_that_ends_a_capture(mode: CaptureMode, ender: str, codes: list[int], choose: Any) -> None:
    program = HandedOver(mode, ender)
    done = SimBackend(choose=choose).run_program(usual_world(1), program, None)
    assert (program.came, judge(usual_world(1), done)) == (codes, [])
    assert program.read == [(5, 5) if codes else (7, 7)]
