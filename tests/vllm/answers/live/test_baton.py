"""Compares vLLM's microbatch contexts on real threads with dpsim's: the order of turns, and which microbatches hang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from dpsim.vllm.overlap.baton import UBatchContext
from tests.vllm.answers.live.baton_cases import Case, draw
from tests.vllm.answers.live.baton_engine import Engine
from tests.vllm.answers.live.baton_ours import ours

RELEASES = ("0.11.0", "0.14.0", "0.33.0")
"""Release 0.11 is the first with microbatch contexts. It allows two microbatches and lacks `dbo_get_previous_event`."""


class OwnHook(UBatchContext):
    """Mutant M-BT-14: the microbatch leaves its hook to itself instead of to the next microbatch."""

    def hook_owner(self) -> UBatchContext:
        return self


class KeepsTheBaton(UBatchContext):
    """Mutant M-BT-12: on exit, the microbatch signals itself, so it releases no other microbatch."""

    def exit(self) -> None:
        self.signal_event = self.wait_event
        super().exit()


class ForgetsEarly(UBatchContext):
    """Deletes a hook before it runs, so that a hook that raised does not run again on exit."""

    def maybe_run_recv_hook(self) -> None:
        if self.recv_hook is not None:
            hook, self.recv_hook = self.recv_hook, None
            hook()


def cases(count: int, release: str = "0.33.0") -> list[Case]:
    random = Random(31)
    limits: tuple[Sequence[int], Sequence[str]] = ((2,), ("previous",)) if release == "0.11.0" else ((2, 2, 3, 4), ())
    return [draw(random, *limits) for _ in range(count)]


@pytest.mark.nightly
@pytest.mark.parametrize("release", RELEASES)
def test_turns_and_hangs_are_the_engines(release: str) -> None:
    seen: Counter[str] = Counter()
    for seed, case in enumerate(cases(1000, release)):
        engine = Engine(release, case).run()
        assert ours(case, seed) == engine, case
        seen[f"{len(case)} microbatches"] += 1
        seen["all end"] += set(engine.ends) == {""}
        seen["stands after an error"] += "stands" in engine.ends and not set(engine.ends) <= {"", "stands"}
        for end in set(engine.ends) - {""}:
            seen[end] += 1
        seen["a hook runs"] += any(turn[0] == "hook of" for turn in engine.turns)
    expected = "all end", "stands", "stands after an error", "Drawn", "AssertionError", "AttributeError", "KeyError"
    assert min(seen[what] for what in (*expected, "2 microbatches", "a hook runs")) >= 5, seen


@pytest.mark.nightly
@pytest.mark.parametrize("context", [OwnHook, KeepsTheBaton, ForgetsEarly])
def test_a_faulty_baton_differs(context: type[UBatchContext]) -> None:
    drawn = cases(1000)
    assert any(ours(case, 0, context) != Engine("0.33.0", case).run() for case in drawn)
