"""Tests the promise of `dbo` that flags order all Python objects that its threads share.

A program makes this promise by `ordered_by_flags`. Then the strategy `dpor` skips orders of calls on different objects.
This test samples schedules in which all turns of a rank conflict, as without the promise. It samples, because a proof
is too long: `dpor` did not finish after 2,000 schedules. The world has one rank, whose two microbatches share all that
threads can share.

The faulty twin concatenates outputs in the order in which the threads store them. It is mutant M-BT-7 without the extra
yield that lets the second microbatch finish first. With the promise, `dpor` proves the twin, because no flag orders the
two stores; sampling finds its mistake. In contrast, a flag orders the accesses to contexts (`UBatchContext.registry`).
So `dpor` with the promise also finds a barrier at which no thread waits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import Scenario
from dpsim.scenario.to_world import prepare, world
from dpsim.vllm.data_parallel.forward import Execution
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.museum.overlap import InOrderOfCompletion, LowLatencyForward, SkipsBarrier
from dpsim.vllm.overlap.barrier import ReadyBarrier
from dpsim.vllm.overlap.forms import Forward033, OverlapStep
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.programs.dbo import DualBatchOverlap, OverlapSetup
from tests.properties import nightly_but
from tests.vllm.overlap.dbo_worlds import GRAPHS, scenario
from tests.vllm.released import FORWARDS

EAGER = scenario([(2, 1), (2, 1)], ranks=1)
TWICE = scenario([(2, 2), (2, 2)], ranks=1)
CAPTURED = scenario([(1, 2), (1, 2)], ranks=1, cudagraph_capture_sizes=[2], max_num_seqs=2, **GRAPHS)
FORMS: dict[str, type[OverlapForward]] = {**FORWARDS, "low-latency": LowLatencyForward}
SAMPLES = [
    (EAGER, "0.33", "random", 500),
    (EAGER, "0.33", "pct", 1000),
    (EAGER, "source-000", "pct", 300),
    (EAGER, "low-latency", "pct", 500),
    (CAPTURED, "0.33", "pct", 300),
]


class Alone(OverlapStep):
    """One rank that agrees with itself, and splits its batch. A real engine with one rank never splits."""

    async def coordinate(self, batch: Batch) -> Execution:
        mode, descriptor = self.flow.first_dispatch(batch)
        plan = await self.agree(self.flow.local_batch(batch, mode, descriptor))
        [agreed] = plan.num_tokens or (descriptor.num_tokens,)
        mode, descriptor = self.flow.second_dispatch(batch, agreed, plan)
        return Execution(plan, mode, agreed, batch, descriptor)


class Unpromised(DualBatchOverlap):
    """Makes no promise, so that all turns of a rank conflict."""

    ordered_by_flags = False


class AsTheyCame(Forward033):
    """Faulty twin: concatenates outputs in the order in which the threads store them."""

    wrapper_of = InOrderOfCompletion.Wrapper


class OneNotWaitedFor(LowLatencyForward):
    """Faulty: the main thread does not wait for the last microbatch."""

    class Barrier(ReadyBarrier):
        def begin(self, num_ubatches: int) -> None:
            super().begin(num_ubatches)
            self.expected -= 1

    barrier = Barrier


class NotRenewed(LowLatencyForward):
    """Faulty: the barrier stays open after the first step."""

    class Barrier(ReadyBarrier):
        def begin(self, num_ubatches: int) -> None:
            self.expected = num_ubatches

    barrier = Barrier


def explored(
    one: Scenario, program: type[DualBatchOverlap], forward: type[OverlapForward], strategy: str, schedules: int
) -> Explored:
    _, _, prepared = prepare(one, Path())
    assert isinstance(prepared, OverlapSetup)
    subject = Subject(world(one), program(), prepared._replace(forward=forward, step=Alone), repeats=False)
    return explore_subject(subject, strategy, schedules=schedules)


@pytest.mark.parametrize(("one", "form", "strategy", "schedules"), nightly_but(SAMPLES, lambda one: one[-1] <= 500))
def test_nothing_is_found_without_the_promise(one: Scenario, form: str, strategy: str, schedules: int) -> None:
    assert explored(one, DualBatchOverlap, FORMS[form], "dpor", 1000).verdict == "proven"
    found = explored(one, Unpromised, FORMS[form], strategy, schedules)
    assert (found.verdict, found.exploration.runs) == ("sampled", schedules)


def test_a_promise_that_is_not_kept_is_found() -> None:
    assert explored(EAGER, DualBatchOverlap, AsTheyCame, "dpor", 1000).verdict == "proven"
    found = explored(EAGER, Unpromised, AsTheyCame, "pct", 300)
    assert found.failure is not None
    assert found.failure.problem.klass == "CRASH:WRONGSUM"


@pytest.mark.slow
@pytest.mark.parametrize("forward", [SkipsBarrier, OneNotWaitedFor, NotRenewed])
def test_barriers_are_judged_with_the_promise(forward: type[OverlapForward]) -> None:
    """Threads share contexts in Python, and a call on a flag records each access, so `dpor` finds faulty barriers."""
    assert explored(TWICE, DualBatchOverlap, LowLatencyForward, "dpor", 100).verdict == "proven"
    found = explored(TWICE, DualBatchOverlap, forward, "dpor", 100)
    assert found.failure is not None
    assert found.failure.problem.klass == "CRASH:ATTRIBUTEERROR"
