"""Tests invariant I-BT-7: each receive hook that a microbatch leaves to the next one runs exactly once.

The faulty twin is an exit that forgets the hook.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpsim.vllm.overlap.all_to_all import LowLatency
from dpsim.vllm.overlap.baton import UBatchContext
from tests.vllm.overlap.test_speed_up import LAYERS, Eight, elapsed


def counted(forgets: bool) -> list[int]:
    """Returns how often each hook of a forward of two ranks ran. `forgets`: the exit of a microbatch drops its hook."""
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
    """Each microbatch of each rank leaves one hook for the dispatch and one for the combine of each layer."""
    assert counted(forgets=False) == [1] * (2 * LAYERS * 2 * 2)


def test_an_exit_that_forgets_reads_too_early() -> None:
    """At its exit, the first microbatch has to run the hook of the second one's last receive; else a rank reads too
    early.
    """
    with pytest.raises(AssertionError, match=r"WrongSum|DroppedTokens"):
        counted(forgets=True)
