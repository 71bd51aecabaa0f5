"""Tests that `check-engine` draws new questions for an installed release, with two functions like vLLM's and faulty
twins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpsim_engine import check
from tests.vllm.answers.stand_in import few


def mask(batch: Any, after: int = 0) -> Any:
    """Returns the need mask of release 0.33: which rows need a sampled token.

    `after`: an error for prompts above 25 tokens.
    """
    prefill = batch.prefill_len_np + np.where(batch.prefill_len_np > 25, after, 0)
    samples = batch.num_computed_tokens_np + batch.num_scheduled_tokens >= prefill
    ends = (batch.num_computed_tokens_np < prefill) & (prefill + 1 >= batch.max_seq_len_np)
    needs = samples & ~ends
    return needs if needs.any() else None


def coordinate(place: ModuleType, last: Callable[[int, int], bool]) -> Callable[..., Any]:
    """Returns the agreement function of release 0.33, for two microbatches."""

    def coordinate_batch_across_dp(parallel_config: Any, **rank: Any) -> Any:
        ranks, index, mode = parallel_config.data_parallel_size, parallel_config.data_parallel_rank, "cudagraph_mode"
        if ranks == 1:
            return False, None, rank[mode]
        tokens, padded = rank["num_tokens_unpadded"], rank["num_tokens_padded"]
        assert padded >= tokens
        kind = "decode" if rank["uniform_decode"] else "prefill"
        enough = tokens >= getattr(parallel_config, f"dbo_{kind}_token_threshold")
        wish = rank["allow_microbatching"] and parallel_config.enable_dbo and enough
        table = np.zeros((4, ranks), np.int32)
        table[:, index] = tokens, padded, wish, rank[mode]
        place.dist.all_reduce(table, group=place.get_dp_group().cpu_group)
        splits = bool(table[2].all()) and not last(int(table[0].min()), int(table[1].max()))
        agreed = int(table[3].min())
        counts = np.full(ranks, table[1].max()) if agreed or splits else table[1]
        return splits, counts, agreed

    return coordinate_batch_across_dp


def checked(
    monkeypatch: pytest.MonkeyPatch, place: Path, file: str, module: ModuleType, draws: int, seed: int = 0
) -> check.Checked:
    names = module.__name__.split(".")
    for parent in (".".join(names[:at]) for at in range(1, len(names))):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return check.live(place, "0.33.0", draws=draws, seed=seed)


@pytest.mark.parametrize(("draws", "after", "differs"), [(0, 0, False), (200, 0, False), (200, 5, True)])
def test_check_engine_draws_and_compares_need_masks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, draws: int, after: int, differs: bool
) -> None:
    module = ModuleType("vllm.v1.worker.gpu.pp_utils")
    module.compute_need_sampled_mask = lambda batch: mask(batch, after)  # type: ignore[attr-defined]
    found = checked(monkeypatch, few(tmp_path / "few", 3, ["need_mask"]), "need_mask", module, draws)
    (one,) = [one for one in found.compared if one.kind == "need_mask"]
    assert one.rows == 3 + draws
    assert bool(one.differing) is differs
    if one.first is not None:
        assert one.first.row.startswith("drawn ")


def last_empty(tokens: int, padded: int) -> bool:
    return padded // 2 >= tokens


def last_empty_by_one(tokens: int, padded: int) -> bool:
    return padded // 2 > tokens


@pytest.mark.parametrize(("last", "differs"), [(last_empty, False), (last_empty_by_one, True)])
def test_check_engine_draws_and_compares_groups_of_ranks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, last: Callable[[int, int], bool], differs: bool
) -> None:
    """`check-engine` calls the function once for each rank, and returns to each rank the sum of what all ranks send.

    A twin whose last-microbatch test is off by one answers differently.
    """
    module = ModuleType("vllm.v1.worker.dp_utils")
    module.dist = module.get_dp_group = None  # type: ignore[attr-defined]
    module.coordinate_batch_across_dp = coordinate(module, last)  # type: ignore[attr-defined]
    found = checked(monkeypatch, few(tmp_path / "few", 1, ["decide"]), "decide", module, 1500)
    (one,) = [one for one in found.compared if one.kind == "decide"]
    assert one.rows == 1501
    assert bool(one.differing) is differs
    assert module.dist is None, "the comparison restores the module"
