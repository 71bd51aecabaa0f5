"""Every receive that is left to the next microbatch is completed exactly once (I-BT-7), beside an exit that forgets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.vllm.overlap.all_to_all import LowLatency
from dpsim.vllm.overlap.baton import UBatchContext
from tests.vllm.overlap.test_speed_up import LAYERS, Eight, elapsed


def counted(forgets: bool) -> list[int]:
    """How often each hook of a forward of two ranks ran."""
    runs: list[int] = []

    class Counted(UBatchContext):
        def register_recv_hook(self, hook: Callable[[], None]) -> None:
            number = len(runs)
            runs.append(0)

            def once() -> None:
                runs[number] += 1
                hook()

            super().register_recv_hook(once)

        def exit(self) -> None:
            if forgets:
                self.recv_hook = None
            super().exit()

    class Counting(Eight):
        all_to_all = LowLatency
        ubatch_context = Counted

    elapsed(Counting)
    return runs


def test_each_hook_runs_once() -> None:
    """A dispatch and a combine in each layer of each microbatch of each rank."""
    assert counted(forgets=False) == [1] * (2 * LAYERS * 2 * 2)


def test_an_exit_that_forgets_reads_too_early() -> None:
    """The last receive of the second microbatch is the first one's to complete, as it leaves."""
    with pytest.raises(AssertionError, match=r"WrongSum|DroppedTokens"):
        counted(forgets=True)
