"""Families of random small worlds. Each family draws a scenario of one of vLLM's programs, as plain data.

>>> from random import Random
>>> FAMILIES["engine"](Random(1))["protocol"]["name"]
'engine'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

Data: TypeAlias = dict[str, Any]


def _requests(
    random: Random, most: int, *, prompts: int, outputs: int, arrivals: Sequence[int], least: int = 1
) -> Data:
    """Draws a workload of `least` to `most` requests. `arrivals`: the arrival times to choose from, in milliseconds."""
    number = random.randint(least, most)
    return {
        "requests": [
            {
                "arrival": f"{random.choice(arrivals)}ms",
                "prompt_tokens": random.randint(1, prompts),
                "output_tokens": random.randint(1, outputs),
            }
            for _ in range(number)
        ]
    }


def _dp_batch(random: Random) -> Data:
    return {
        "name": "w",
        "protocol": {"name": "dp_batch", "form": random.choice(("source-000", "0.14"))},
        "topology": {"data_parallel_size": random.choice((2, 3, 3, 4, 4, 5))},
        "config": {
            "async_scheduling": random.random() < 0.5,
            "enable_dbo": random.random() < 0.5,
            "dbo_prefill_token_threshold": 64,
            "dbo_decode_token_threshold": 2,
        },
        "workload": _requests(random, 8, prompts=300, outputs=10, arrivals=(0, 0, 20, 40, 100)),
    }


def _pp_tokens(random: Random) -> Data:
    data, stages, tensor = random.choice([(1, 2, 1), (1, 2, 1), (1, 3, 1), (1, 4, 1), (2, 2, 1), (1, 2, 2)])
    return {
        "name": "w",
        "protocol": {"name": "pp_tokens"},
        "topology": {
            "data_parallel_size": data,
            "pipeline_parallel_size": stages,
            "tensor_parallel_size": tensor,
        },
        "config": {
            "max_num_seqs": random.choice((1, 2, 3)),
            "max_num_batched_tokens": random.choice((12, 16)),
            "num_speculative_tokens": random.choice((0, 0, 1, 2)),
            "async_scheduling": random.random() < 0.5,
            "cudagraph_mode": "NONE",
        },
        "workload": _requests(random, 4, prompts=12, outputs=7, arrivals=(0, 20, 40, 60, 80)),
    }


def _engine(random: Random) -> Data:
    return {
        "name": "w",
        "protocol": {"name": "engine", "form": random.choice(("0.33", "0.33", "0.14"))},
        "topology": {"data_parallel_size": random.choice((2, 3, 3, 4))},
        "workload": _requests(random, 4, prompts=3, outputs=8, arrivals=(0, 0, 20, 300)),
    }


def _whole_engine(random: Random) -> Data:
    """Draws whole engines with two pipeline stages."""
    return {
        "name": "w",
        "protocol": {"name": "whole_engine", "form": "current", "pieces": {"tokens": "0.33-repaired"}},
        "topology": {"data_parallel_size": random.choice((1, 2, 2)), "pipeline_parallel_size": 2},
        "config": {
            "parallel_rules": "0.33",
            "dp_sync_interval": 4,
            "max_num_seqs": 2,
            "max_num_batched_tokens": 8,
            "num_speculative_tokens": random.choice((0, 1)),
            "cudagraph_mode": "NONE",
        },
        "workload": _requests(random, 3, prompts=9, outputs=4, arrivals=(0, 0, 20)),
    }


def _whole_engine_dp(random: Random) -> Data:
    return {
        "name": "w",
        "protocol": {"name": "whole_engine_dp", "form": "current"},
        "topology": {"data_parallel_size": random.choice((2, 3))},
        "config": {
            "parallel_rules": "0.33",
            "dp_sync_interval": 4,
            "max_num_seqs": 4,
            "max_num_batched_tokens": 16,
            "cudagraph_mode": "NONE",
        },
        "workload": _requests(random, 4, prompts=9, outputs=4, arrivals=(0, 0, 20)),
    }


def _dbo(random: Random) -> Data:
    return {
        "name": "w",
        "protocol": {"name": "dbo", "form": "0.33"},
        "topology": {"data_parallel_size": random.choice((2, 2, 3, 4))},
        "config": {
            "enable_dbo": True,
            "dbo_decode_token_threshold": 2,
            "dbo_prefill_token_threshold": 8,
            "cudagraph_mode": "NONE",
            "max_num_seqs": 8,
        },
        "workload": _requests(random, 8, prompts=12, outputs=4, arrivals=(0, 0, 1, 2)),
    }


def _startup(random: Random) -> Data:
    return {
        "name": "w",
        "protocol": {"name": "startup", "form": "0.33"},
        "topology": {
            "data_parallel_size": random.choice((2, 2, 3)),
            "tensor_parallel_size": random.choice((1, 1, 2)),
        },
        "config": {"max_num_seqs": 4, "max_num_batched_tokens": 16, "cudagraph_capture_sizes": [4, 2, 1]},
        "workload": {"requests": [{"arrival": "0ms", "prompt_tokens": 1, "output_tokens": 1}]},
    }


FAMILIES: dict[str, Callable[[Random], Data]] = {
    "dp_batch": _dp_batch,
    "pp_tokens": _pp_tokens,
    "engine": _engine,
    "whole_engine_dp": _whole_engine_dp,
    "whole_engine": _whole_engine,
    "dbo": _dbo,
    "startup": _startup,
}
"""The function that draws a random scenario of each family."""
