"""A small workload that shows a deployment at work: prompts, decodes, and ranks without work.

Requests arrive one a replica and step, and end at different times. So some ranks are idle before others begin and after
others end. If batches are split, all requests arrive at once. Each replica then has enough requests to split its
decodes, and long enough prompts to split these as well.

    >>> workload(EngineConfig(), replicas=2, longest=None)["synthetic"]["requests"]
    9
    >>> workload(EngineConfig(enable_dbo=True), replicas=2, longest=None)["synthetic"]["requests"]   # 2 x (32 + 8)
    80
"""

from __future__ import annotations

from typing import Any

from dpsim.vllm.config import MAX_TOKENS, EngineConfig

STEPS_A_SECOND = 50  # of the workload's clock
EXTRA = 8
"""Requests of a replica beyond those that its decodes need: some end early."""
MOST = 50_000
"""Requests of all replicas together: a small workload stays small."""


def workload(config: EngineConfig, replicas: int, longest: int | None) -> dict[str, Any]:
    """The section `workload` of a scenario. `longest`: tokens that a request may have, prompt and output."""
    if config.use_ubatching:
        return _many_at_once(config, replicas, longest)
    output = {"min": 2, "max": 12}
    synthetic = {
        "requests": 4 * replicas + 1,
        "seed": 1,
        "rate": STEPS_A_SECOND * replicas,
        "prompt_tokens": {"min": 8, "max": 600, "distribution": "log_uniform"},
        "output_tokens": output,
    }
    return {"synthetic": _within(synthetic, _most(config, longest))}


def _many_at_once(config: EngineConfig, replicas: int, longest: int | None) -> dict[str, Any]:
    needed = -(-config.dbo_decode_token_threshold // config.uniform_decode_query_len)
    each = min(needed + EXTRA, config.max_num_seqs, max(MOST // replicas, 1))
    prompt = max(-(-config.dbo_prefill_token_threshold // each), 1)
    synthetic = {
        "requests": each * replicas,
        "seed": 1,
        "prompt_tokens": {"min": prompt, "max": min(2 * prompt, MAX_TOKENS)},
        "output_tokens": {"min": 2, "max": 24, "distribution": "log_uniform"},
    }
    return {"synthetic": _within(synthetic, _most(config, longest))}


def _most(config: EngineConfig, longest: int | None) -> int | None:
    """Tokens of the longest request that fits, as far as there is a limit. In a pipeline two decodes of a request may
    be under way beside its tokens, and they have blocks, too.
    """
    blocks, ahead = config.num_gpu_blocks_override, 2 * config.uniform_decode_query_len
    limits = [longest, None if blocks is None else max(blocks * config.block_size - ahead, 2)]
    return min((limit for limit in limits if limit is not None), default=None)


def _within(synthetic: dict[str, Any], most: int | None) -> dict[str, Any]:
    """With shorter prompts and outputs, where there is a limit for both together."""
    if most is None:
        return synthetic
    output = min(synthetic["output_tokens"]["max"], max(most // 2, 1))
    prompt = max(most - output, 1)
    return {
        **synthetic,
        "prompt_tokens": _cut(synthetic["prompt_tokens"], prompt),
        "output_tokens": _cut(synthetic["output_tokens"], output),
    }


def _cut(lengths: dict[str, Any], most: int) -> dict[str, Any]:
    return {**lengths, "min": min(lengths["min"], most), "max": min(lengths["max"], most)}
