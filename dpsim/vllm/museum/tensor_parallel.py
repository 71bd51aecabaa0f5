"""Variants of the slices that tensor-parallel ranks send between pipeline stages: each class has one planted mistake.

Each tensor-parallel rank of a stage sends its slice of a tensor, and the ranks of the next stage gather the slices. The
mistakes are mutants of the engine's specification, section 7.8 (keys such as M-PS-2; see docs/keys.md).
"""

from __future__ import annotations

from dpsim.contract.interface import Buffer
from dpsim.vllm.museum.tokens import mutant
from dpsim.vllm.pipeline.transfer import Received, WaitsForDescription


@mutant("M-PS-2", "MISMATCH:TRANSFER:COUNT")
class SendsWhole(WaitsForDescription):
    """Each rank sends whole tensors, while the receivers expect slices."""

    def own_slice(self, tensor: Buffer) -> Buffer:
        return tensor


@mutant("M-PS-14", "HANG:COLLECTIVE:MISSING_RANK")
class SkipsOne(WaitsForDescription):
    """One rank of a stage skips the all-gather of a tensor, as if it were empty there, and the others wait for it."""

    def gathered(self, received: Received) -> list[str]:
        names = super().gathered(received)
        return names[:-1] if self.tp_index else names
