"""Variants in which one microbatch raises an error during a capture."""

from __future__ import annotations

from dpsim.contract.interface import Buffer
from dpsim.contract.registry import register_variant
from dpsim.vllm.overlap.repaired import ForwardRepaired


class BrokenKernel(RuntimeError):
    """The error that a kernel raises at its launch."""


class Raises(ForwardRepaired):
    """Microbatch `number` raises in its second layer of a capture, after both microbatches passed the first layer."""

    number = 0

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        capturing = self.state.running_context().context.capturing
        if layer and capturing and self.dbo.enabled and self.dbo.current_ubatch_id == self.number:
            raise BrokenKernel(f"microbatch {self.number} has no kernel")
        return await super().mixture(layer, attended)


@register_variant("raises-0", protocol="dbo", form="0.33-repaired", expected="CRASH:BROKENKERNEL")
class FirstRaises(Raises):
    """The first microbatch raises during a capture."""


@register_variant("raises-1", protocol="dbo", form="0.33-repaired", expected="CRASH:BROKENKERNEL")
class SecondRaises(Raises):
    """The second microbatch raises during a capture, while the first waits for the baton."""

    number = 1
