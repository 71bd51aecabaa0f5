"""Draws random groups of ranks of the V2 runner: few sizes of graphs, and batches of similar sizes."""

from __future__ import annotations

from random import Random

from dpsim_engine.comparison import Row

MODES = ("NONE", "PIECEWISE", "FULL", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE")
SIZES = (1, 2, 4, 6, 8, 12, 16, 20, 32, 48, 64, 80, 96, 128, 192, 384)


def group(random: Random, release: str) -> Row:
    q, most, splits = random.randint(1, 4), random.choice([2, 4, 8, 16, 40, 64, 128]), random.random() < 0.6
    alike = random.random() < 0.6
    uniform = random.choice([q, q, q, random.randint(1, 5)])
    return {
        "config": {
            "cudagraph_mode": random.choice(MODES),
            "cudagraph_capture_sizes": sorted(random.sample(SIZES, random.randint(1, 7))),
            "decode_query_len": q,
            "max_num_seqs": most,
            "enable_dbo": splits,
            "dbo_decode_token_threshold": random.choice([2, 4, 8, 32]),
            "dbo_prefill_token_threshold": random.choice([2, 8, 64]),
        },
        "ranks": [_rank(random, q, most, splits, uniform if alike else None) for _ in range(random.randint(2, 6))],
    }


def _rank(random: Random, q: int, most: int, splits: bool, uniform: int | None) -> Row:
    """Returns a random rank. `q` is the number of tokens of a decode.

    `uniform` is the number of tokens of each request where ranks are alike, and None where they are not. About one rank
    in eight deviates from it.
    """
    requests = random.randint(1, most)
    if random.random() < 0.06:
        requests, count = 0, None
    elif uniform is not None and random.random() < 0.9:
        count = uniform
    else:
        count = random.choice([None, random.randint(1, 4)])
    tokens = requests * count if count else requests and requests + random.randint(0, 60)
    return {
        "num_tokens": tokens,
        "num_reqs": requests,
        "uniform_token_count": count,
        "need_eager": random.random() < 0.05,
        "allow_ubatching": splits and random.random() < 0.9,
        "uniform_decode": count == q,
        "allow_skip_drafts": random.random() < 0.7,
    }
