"""Plants mistakes that the museum does not contain in small worlds of dbo.

A check finds each; the healthy form is proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from dpsim.contract.interface import Buffer
from dpsim.scenario import Scenario
from dpsim.vllm.capture.wrapper import Outputs
from dpsim.vllm.museum.overlap import LowLatencyForward
from dpsim.vllm.overlap.all_to_all import LowLatency
from dpsim.vllm.overlap.barrier import LiteralBarrier
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.overlap.repaired import RepairedWrapper
from dpsim.vllm.overlap.sm_control import SMControl
from dpsim.vllm.overlap.state import OverlapContext
from dpsim.vllm.overlap.wrapper import UbatchMetadata, UBatchWrapper
from tests.vllm.overlap.dbo_worlds import found_class, planted, scenario

EXPERTS: dict[str, Any] = {"enforce_eager": True, "enable_expert_parallel": True}
WHOLE = scenario([(2, 1)] * 4, **EXPERTS)
THEN_PLAIN = scenario([(2, 2), (2, 2), (2, 2), (2, 1)], **EXPERTS)
"""Ranks split the first step into microbatches but not the second, because rank 1 then has one token."""


class NotRestored(Forward033):
    """Breaks I-BT-9: the main thread continues with the forward context of the microbatch that ran last."""

    class Wrapper(UBatchWrapper):
        async def run_ubatches(self, parts: Sequence[UbatchMetadata]) -> Outputs:
            running = self.start(parts, capturing=False)
            await self.barrier.main()
            results = await self.finish(running)
            return self.concatenated(results, running.contexts[0].compute_stream)

    wrapper_of = Wrapper


class HookTwice(LowLatencyForward):
    """Breaks I-BT-7: the context keeps a hook after it ran, so another call runs it again."""

    class Context(UBatchContext):
        def maybe_run_recv_hook(self) -> None:
            if self.recv_hook is not None:
                self.recv_hook()

    ubatch_context = Context


class ComputeKept(Forward033):
    """Breaks spec chapter 4.10 (SM control): after the step, only communication has all multiprocessors again."""

    class Half(SMControl):
        def restore(self) -> None:
            self.comm = self.total

    sm_control = Half


class Uncapped(Forward033):
    """Breaks spec chapter 4.10: communication takes more multiprocessors than its buffers support."""

    class Wanted(SMControl):
        wanted = 40
        budget = property(lambda self: self.wanted)

    sm_control = Wanted


class Capped(Forward033):
    """Healthy: wants more multiprocessors than the buffers support, and takes as many as they do."""

    class Wanted(SMControl):
        wanted = 40

    sm_control = Wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "mistake", "klass", "healthy"),
    [
        (WHOLE, NotRestored, "CRASH:WRONGFORWARD", Forward033),
        (WHOLE, HookTwice, "CRASH:DROPPEDTOKENS", LowLatencyForward),
        (THEN_PLAIN, ComputeKept, "CRASH:TOOFEWSMS", Forward033),
        (WHOLE, Uncapped, "CRASH:TOOFEWSMS", Capped),
    ],
)
def test_each_planted_mistake_is_found_and_its_healthy_twin_is_proven(
    one: Scenario, mistake: type[OverlapForward], klass: str, healthy: type[OverlapForward]
) -> None:
    assert planted(one, healthy).verdict == "proven"
    assert found_class(planted(one, mistake)) == klass


class BrokenReceive(RuntimeError):
    """The error that a hook raises."""


class NoKernel(RuntimeError):
    """The error that the first microbatch raises in the first step."""


# ---- a microbatch that raises outside of its layers


@pytest.mark.parametrize("number", [0, 1])
def test_a_hook_that_raises_as_its_microbatch_leaves(number: int) -> None:
    """If a hook raises at the exit of its microbatch, the repaired form reports the error, and the other microbatch
    ends.
    """

    class Context(UBatchContext):
        def maybe_run_recv_hook(self) -> None:
            if self.id == number and self.id not in self.state.ids.values():
                raise BrokenReceive("nothing came")
            super().maybe_run_recv_hook()

    class Raises(LowLatencyForward):
        wrapper_of = RepairedWrapper
        ubatch_context = Context

    found = planted(WHOLE, Raises)
    assert found_class(found) == "CRASH:BROKENRECEIVE"
    assert f"every rank, thread ubatch.{number}" in found.report(), "the report names the thread that raised, not main"


class FallsBack(OverlapForward):
    """Source page 001's forward with hooks and a repaired wrapper: if a microbatch raises, the rank runs that step as a
    whole.

    The rank splits the next step again.
    """

    all_to_all = LowLatency

    class Wrapper(RepairedWrapper):
        async def __call__(
            self, forward: OverlapContext, inputs: tuple[Buffer, ...], parts: Sequence[UbatchMetadata] | None
        ) -> Outputs:
            try:
                return await super().__call__(forward, inputs, parts)
            except NoKernel:
                return await super().__call__(forward, inputs, None)

    wrapper_of = Wrapper

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        if self.dbo.enabled and not self.dbo.current_ubatch_id and not self.rank.step:
            raise NoKernel("no kernel for so few tokens")
        return await super().mixture(layer, attended)


class StaysOpen(FallsBack):
    """Faulty: after an abort, the barrier stays open, so microbatches of the next step pass it at once."""

    class Barrier(LiteralBarrier):
        def begin(self, num_ubatches: int) -> None:
            self._tickets, self._broken = count(), False

    barrier = Barrier


@pytest.mark.slow
def test_the_literal_barrier_holds_after_it_was_broken_off() -> None:
    """The barrier of source page 001 works again after an abort.

    The world has too many schedules for a proof. 20 schedules suffice to find a barrier that stays open.
    """
    again = scenario([(2, 2)] * 4, form="source-000")
    assert found_class(planted(again, FallsBack, schedules=20)) is None
    assert found_class(planted(again, StaysOpen, schedules=20)) == "CRASH:ATTRIBUTEERROR"
