"""Makes a small workload that exercises a deployment: prompts, decodes, and ranks without work.

In each step, one request arrives for each replica, and they end at different times, so some ranks idle. If the
deployment splits batches, all requests arrive at once instead.

    >>> workload(EngineConfig(), replicas=2, longest=None)["synthetic"]["requests"]
    9
    >>> workload(EngineConfig(enable_dbo=True), replicas=2, longest=None)["synthetic"]["requests"]   # 2 x (32 + 8)
    80
"""

from __future__ import annotations

from typing import Any

from dpsim.vllm.config import MAX_TOKENS, EngineConfig

STEPS_A_SECOND = 50  # on the step clock of the workload
EXTRA = 8
"""Additional requests of a replica, because some requests end early."""
MOST = 50_000
"""The largest number of requests of all replicas together, so that the workload stays small."""


def workload(config: EngineConfig, replicas: int, longest: int | None) -> dict[str, Any]:
    """Returns the section `workload`. `longest`: tokens of a request, prompt and output; None: no limit."""
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
    """In a pipeline, two decodes of a request may be in flight beyond its tokens, and need KV cache blocks, too."""
    blocks, ahead = config.num_gpu_blocks_override, 2 * config.uniform_decode_query_len
    limits = [longest, None if blocks is None else max(blocks * config.block_size - ahead, 2)]
    return min((limit for limit in limits if limit is not None), default=None)


def _within(synthetic: dict[str, Any], most: int | None) -> dict[str, Any]:
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
