"""The broadcast of sampled tokens as source page 002 describes it, with its width and its need mask (specification 6.4,
6.5).

Width and mask fail with speculative decoding. `SampledTokens` contains the corrected rules of 0.33, from vLLM's pull
requests 46994 and 54436.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Buffer
from dpsim.vllm.pipeline.batches import Row
from dpsim.vllm.pipeline.need_mask import needs_024
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens


class Page002Tokens(SampledTokens):
    """The broadcast with the rules of source page 002."""

    def row_needs(self, row: Row) -> bool:
        return needs_024(row)

    def received_width(self, rows: Sequence[Row]) -> int:
        """Room for drafts in every step; the sender has it only in steps with drafts, so the widths may differ."""
        return 1 + self.drafts

    def refuse_width(self, tokens: Buffer, rows: Sequence[Row]) -> None:
        """Accepts any width, because the page does not check it."""

    def relays(self, drafts: int) -> bool:
        """Whether the drafts follow: no, the page sends only tokens and counts, in two collectives for each step."""
        return False
