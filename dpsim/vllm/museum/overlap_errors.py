"""Variants of a microbatch that raises an exception: mutants of the engine's specification, and a bug of engines.

A rank runs microbatches in threads that take turns. In the healthy twin a kernel refuses one microbatch, on every rank.
The rank wakes the other microbatch, and runs the step again without microbatches. No release does this; the form
`0.33-repaired` does (specification 4.7 and 4.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpsim.contract.interface import Buffer
from dpsim.contract.registry import register_variant
from dpsim.vllm.capture.wrapper import Outputs
from dpsim.vllm.museum.overlap import HEALTHY
from dpsim.vllm.overlap.baton import UBatchContext
from dpsim.vllm.overlap.repaired import ForwardRepaired, RepairedWrapper
from dpsim.vllm.overlap.sm_control import SMControl
from dpsim.vllm.overlap.wrapper import Running, UbatchMetadata, UBatchWrapper


def mutant(name: str, expected: str | None, reason: str = "", twin: str = "") -> Callable[[type[Any]], type[Any]]:
    return register_variant(name, protocol="dbo", form="0.33-repaired", expected=expected, reason=reason, twin=twin)


class Refused(RuntimeError):
    """The exception of a kernel that cannot run a split batch."""


@mutant("dbo-falls-back", None, f"{HEALTHY} ubatch-parked-sibling, M-BT-12 and M-BT-18")
class FallsBack(ForwardRepaired):
    """A kernel refuses the first microbatch in its second layer on every rank; then each rank runs the whole step."""

    class Wrapper(RepairedWrapper):
        async def run_ubatches(self, parts: Any) -> Outputs:
            try:
                return await super().run_ubatches(parts)
            except Refused:
                self.rank.probe("dbo.refused")
                raise

        async def __call__(self, forward: Any, inputs: Any, parts: Any) -> Outputs:
            try:
                return await super().__call__(forward, inputs, parts)
            except Refused:
                return await super().__call__(forward, inputs, None)

    wrapper_of = Wrapper

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        if self.dbo.enabled and self.dbo.current_ubatch_id == 0:
            await self.dbo.yield_()
            raise Refused("no kernel for so few tokens")
        return await super().mixture(layer, attended)


@mutant("ubatch-parked-sibling", "HANG:FLAG:THREAD_ENDED", twin="dbo-falls-back")
class ParksSibling(FallsBack):
    """A microbatch that raises wakes the next one only once, so the next one later waits for a thread that has ended.

    Every release does this (vllm pull requests 55586 and 51700).
    """

    class ParksWrapper(FallsBack.Wrapper):
        def failed(self, error: Exception, running: Running) -> None:
            UBatchWrapper.failed(self, error, running)

    wrapper_of = ParksWrapper


@mutant("M-BT-12", "HANG:FLAG:THREAD_ENDED", twin="dbo-falls-back")
class LeavesSilently(FallsBack):
    """A microbatch that raises does not wake the next one."""

    class SilentWrapper(FallsBack.Wrapper):
        def failed(self, error: Exception, running: Running) -> None:
            running.errors.append(error)

        async def run_ubatch(
            self, context: UBatchContext, part: UbatchMetadata, running: Running, capturing: bool
        ) -> None:
            await context.enter()
            outputs = await self.model(part.forward.context, part.inputs)
            context.exit()
            self.keep(context.id, outputs, running)

    wrapper_of = SilentWrapper


@mutant("M-BT-18", "CRASH:TOOFEWSMS", twin="dbo-falls-back")
class KeepsBudget(FallsBack):
    """A rank returns multiprocessors to the compute kernels after the microbatches, but not if a microbatch raised."""

    class Forgets(SMControl):
        @contextmanager
        def shared_out(self) -> Iterator[None]:
            self.comm, self.compute = self.budget, self.total - self.budget
            yield
            self.restore()

    sm_control = Forgets
