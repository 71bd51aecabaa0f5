"""Calls vLLM's functions for the need mask, for the cut of a batch, and for the metadata of each microbatch."""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpsim_engine.comparison import Row
from dpsim_engine.live.installed import function, module
from dpsim_engine.live.stand_ins import REFUSALS, plain, refusal

UBATCHES = "vllm.v1.worker.ubatch_utils"


def array(numbers: list[int]) -> Any:
    return np.array(numbers, np.int32)


def need_mask(row: Row) -> Row:
    """Puts the question to vLLM 0.24 to 0.33."""
    computed, prefill = array(row["num_computed_tokens"]), array(row["prefill_len"])
    batch = SimpleNamespace(
        num_reqs=len(computed),
        num_computed_tokens_np=computed,
        num_scheduled_tokens=array(row["num_scheduled_tokens"]),
        prefill_len_np=prefill,
        max_seq_len_np=array(row["max_seq_len"]),
        num_computed_prefill_tokens_np=np.minimum(computed, prefill),
        is_prefilling_np=computed < prefill,
        num_draft_tokens_per_req=None,
    )
    mask = function("vllm.v1.worker.gpu.pp_utils", "compute_need_sampled_mask")(batch)
    return {"answer": None if mask is None else [bool(one) for one in mask]}


# ---- slices


def slice_row(one: Any) -> Row:
    requests, tokens = ([int(part.start), int(part.stop)] for part in (one.request_slice, one.token_slice))
    return {"requests": requests, "tokens": tokens, "empty": bool(one.is_empty())}


def cut(row: Row) -> tuple[Any, Any]:
    """Returns the slices of the V1 runner: the unpadded and the padded ones."""
    own, padded = function(UBATCHES, "maybe_create_ubatch_slices")(
        should_ubatch=True,
        num_scheduled_tokens=array(row["num_scheduled_tokens"]),
        num_tokens_padded=row["num_tokens_padded"],
        num_reqs_padded=row["num_reqs_padded"],
        num_ubatches=row["num_ubatches"],
        split_point=row["split_point"],
    )
    return own, padded


def slices(row: Row) -> Row:
    """Puts the question to vLLM 0.14 to 0.33."""
    try:
        own, padded = cut(row)
    except REFUSALS as error:
        return {"answer": {"slices": refusal(error), "padded": refusal(error)}}
    return {"answer": {"slices": [slice_row(one) for one in own], "padded": [slice_row(one) for one in padded]}}


def slices_v2(row: Row) -> Row:
    """Puts the question to vLLM 0.33."""
    batch = SimpleNamespace(
        num_reqs=len(row["num_scheduled_tokens"]),
        num_scheduled_tokens=array(row["num_scheduled_tokens"]),
        num_tokens_after_padding=row["num_tokens_padded"],
        num_reqs_after_padding=row["num_reqs_padded"],
    )
    make = function("vllm.v1.worker.gpu.ubatch_utils", "create_ubatch_slices")
    try:
        return {"answer": {"v2_runner": [slice_row(one) for one in make(batch, row["num_ubatches"])]}}
    except REFUSALS as error:
        return {"answer": {"v2_runner": refusal(error)}}


def last_empty(row: Row) -> Row:
    """Puts the question to vLLM 0.14 to 0.33."""
    empty = function(UBATCHES, "is_last_ubatch_empty")
    tokens = sum(row["num_scheduled_tokens"])
    return {"last_ubatch_empty": bool(empty(tokens, row["num_tokens_padded"], row["num_ubatches"]))}


# ---- metadata


def metadata_014(row: Row) -> Row:
    return _metadata(row, "vllm.v1.attention.backends.utils")


def metadata(row: Row) -> Row:
    """Puts the question to vLLM 0.17 to 0.33."""
    return _metadata(row, UBATCHES)


def _metadata(row: Row, place: str) -> Row:
    """Cuts one slice after the other out of the same whole batch."""
    split, whole = function(place, "split_attn_metadata"), _whole_batch(row)
    found: list[Row] = []
    for one in cut(row)[1]:
        try:
            (metadata,) = split([one], whole)
        except REFUSALS as error:
            found.append(refusal(error))
            continue
        arrays = {name: plain(getattr(metadata, name)) for name in ("query_start_loc", "seq_lens")}
        counts = ("num_reqs", "num_actual_tokens", "max_query_len", "max_seq_len")
        found.append({**arrays, **{name: int(getattr(metadata, name)) for name in counts}})
    return {"answer": {"metadata": found}}


def _whole_batch(row: Row) -> SimpleNamespace:
    """Returns a CommonAttentionMetadata of a whole batch; padding requests have flat query starts and length 0."""
    torch = module("torch")
    scheduled, computed = row["num_scheduled_tokens"], row["num_computed_tokens"]
    padding = row["num_reqs_padded"] - len(scheduled)
    starts = torch.tensor([0, *accumulate(scheduled), *[sum(scheduled)] * padding], dtype=torch.int32)
    lengths = [sum(both) for both in zip(scheduled, computed, strict=True)]
    seq_lens = torch.tensor([*lengths, *[0] * padding], dtype=torch.int32)
    before = torch.tensor([*computed, *[0] * padding], dtype=torch.int32)
    return SimpleNamespace(
        query_start_loc=starts,
        query_start_loc_cpu=starts.clone(),
        seq_lens=seq_lens,
        seq_lens_cpu=seq_lens.clone(),
        _seq_lens_cpu=seq_lens.clone(),
        seq_lens_cpu_upper_bound=seq_lens.clone(),
        num_computed_tokens_cpu=before,
        _num_computed_tokens_cpu=before.clone(),
        num_reqs=row["num_reqs_padded"],
        num_actual_tokens=row["num_tokens_padded"],
        max_query_len=max(scheduled),
        max_seq_len=0,
        block_table_tensor=torch.zeros(row["num_reqs_padded"], 1, dtype=torch.int32),
        slot_mapping=torch.zeros(row["num_tokens_padded"], dtype=torch.int64),
        positions=None,
        is_prefilling=None,
    )
