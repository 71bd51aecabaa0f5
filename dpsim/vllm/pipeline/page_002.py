"""Source page 002 as it stands: its width and its mask, both of which fail with speculative decoding (6.4, 6.5).

`SampledTokens` has those of 0.33 in their place. Pull requests 46994 and 54436 of vllm say what they changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Buffer
from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.need_mask import needs_024
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens


class Page002Tokens(SampledTokens):
    """The page, word for word."""

    def row_needs(self, row: Row) -> bool:
        return needs_024(row)

    def received_width(self, rows: Sequence[Row]) -> int:
        """Room for drafts in every step, where the sender has it only in those with drafts."""
        return 1 + self.drafts

    def refuse_width(self, tokens: Buffer, rows: Sequence[Row]) -> None:
        """The page sends tokens of any width."""

    def relays(self, drafts: int) -> bool:
        """The page sends tokens and counts alone: two collectives in a step."""
        return False
