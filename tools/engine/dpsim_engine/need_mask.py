"""Compares the need mask: the rows of a batch that need a sampled token from the last stage (specification 6.4)."""

from __future__ import annotations

from collections.abc import Callable

from dpsim.vllm.pipeline.batches import Row as BatchRow
from dpsim.vllm.releases import V0_24, V0_31, V0_33
from dpsim_engine.comparison import Comparison, Row, ours_of

Rule = Callable[[BatchRow], bool]

FIELDS = ("num_computed_tokens", "num_scheduled_tokens", "prefill_len", "max_seq_len")


def answered(row: Row, rule: Rule) -> list[bool] | None:
    """Returns the mask of dpsim, or None if no row needs a token, as vLLM does."""
    rows = zip(*[row[name] for name in FIELDS], strict=True)
    mask = [rule(BatchRow(0, computed, scheduled, prefill, limit, 0)) for computed, scheduled, prefill, limit in rows]
    return mask if any(mask) else None


def expected(row: Row) -> list[bool] | None:
    answer: list[bool] | None = row["answer"]
    return answer


NEED_MASK: Comparison[Rule] = Comparison(
    "need_mask",
    "need_mask",
    "vllm.v1.worker.gpu.pp_utils.compute_need_sampled_mask",
    ours_of(lambda release: release.need_mask, V0_24, V0_31, V0_33),
    answered,
    expected,
    piece=lambda release: release.need_mask,
)
