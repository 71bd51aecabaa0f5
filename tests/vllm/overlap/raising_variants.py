"""Variants of one microbatch that raises while it is captured, and of code that does not catch it."""

from __future__ import annotations

from dpsim.contract.interface import Buffer
from dpsim.contract.registry import register_variant
from dpsim.vllm.overlap.repaired import ForwardRepaired


class BrokenKernel(RuntimeError):
    """What a kernel raises when it is launched."""


class Raises(ForwardRepaired):
    """The microbatch of that number raises in its second layer, once both have gone through the first."""

    number = 0

    async def mixture(self, layer: int, attended: Buffer) -> Buffer:
        capturing = self.state.told().context.capturing
        if layer and capturing and self.dbo.enabled and self.dbo.current_ubatch_id == self.number:
            raise BrokenKernel(f"microbatch {self.number} has no kernel")
        return await super().mixture(layer, attended)


@register_variant("raises-0", protocol="dbo", form="0.33-repaired", expected="CRASH:BROKENKERNEL")
class FirstRaises(Raises):
    """The first one."""


@register_variant("raises-1", protocol="dbo", form="0.33-repaired", expected="CRASH:BROKENKERNEL")
class SecondRaises(Raises):
    """The second one, while the first stands and waits for the baton."""

    number = 1
