"""Variants of the slices that tensor-parallel ranks send: mutants of specification 7.8.

Each is wrong in one place of `dpsim.vllm.pipeline.transfer`: which rank sends which slice, or what a stage gathers.

    protocol: {name: pp_tokens, form: source-002, variant: M-PS-2}
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer
from dpsim.vllm.museum.tokens import mutant
from dpsim.vllm.pipeline.transfer import Received, WaitsForDescription


@mutant("M-PS-2", "MISMATCH:TRANSFER:COUNT")
class SendsWhole(WaitsForDescription):
    """The receivers expect slices, and the senders send whole tensors."""

    def own_slice(self, tensor: Buffer) -> Buffer:
        return tensor


@mutant("M-PS-14", "HANG:COLLECTIVE:MISSING_RANK")
class SkipsOne(WaitsForDescription):
    """One rank of a stage leaves out a tensor, which is empty on it alone: the others gather it, and wait for it."""

    def gathered(self, received: Received) -> list[str]:
        names = super().gathered(received)
        return names[:-1] if self.tp_index else names
