"""Constructs vLLM's configurations: which are valid, which values follow, and which have equal hashes.

The surroundings are those of the stored rows: a CUDA platform with 8 devices, no Ray and no NIXL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from dpsim_engine.comparison import Row
from dpsim_engine.config import AROUND
from dpsim_engine.live.installed import function, module
from dpsim_engine.live.stand_ins import replaced

PLACE = "vllm.config.parallel"

DERIVED = (
    "world_size",
    "world_size_across_dp",
    "data_parallel_size",
    "data_parallel_rank",
    "data_parallel_index",
    "distributed_executor_backend",
    "disable_custom_all_reduce",
    "use_ubatching",
    "num_ubatches",
    "use_sequence_parallel_moe",
    "use_ray",
    "all2all_backend",
    "nnodes_within_dp",
    "node_rank_within_dp",
    "local_world_size",
)
"""The values of a valid configuration that an answer contains."""


@contextmanager
def surroundings() -> Iterator[None]:
    """Replaces the machine and the environment by those of the stored questions."""
    place, before = module(PLACE), dict(os.environ)
    devices = AROUND.devices
    platform = SimpleNamespace(
        is_cuda=lambda: True,
        is_cuda_alike=lambda: True,
        is_xpu=lambda: False,
        is_tpu=lambda: False,
        device_count=lambda: devices,
        use_custom_allreduce=lambda: True,
    )
    names: dict[str, Any] = {"current_platform": platform, "get_open_ports_list": lambda count: list(range(count))}
    if hasattr(place, "cuda_device_count_stateless"):  # 0.14; later releases query the platform
        names["cuda_device_count_stateless"] = platform.device_count
    os.environ.update(AROUND.environ)
    try:
        with replaced(place, **names):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def made(fields: Row) -> tuple[Any, Row]:
    """Returns the configuration, or None if vLLM refuses it, and the answer.

    Like vLLM's engine arguments, it constructs the part of EPLB first.
    """
    parallel_config, eplb_config = (function(PLACE, name) for name in ("ParallelConfig", "EPLBConfig"))
    try:
        given = dict(fields)
        if "eplb_config" in given:
            given["eplb_config"] = eplb_config(**given["eplb_config"])
        config = parallel_config(**given)
    except module("pydantic").ValidationError as error:
        errors = error.errors()
        message = " | ".join(one["msg"] for one in errors)[:200]
        where = [".".join(map(str, one["loc"])) for one in errors]
        return None, {"accepted": False, "raises": type(error).__name__, "message": message, "fields": where}
    except (ValueError, AssertionError, NotImplementedError) as error:
        return None, {"accepted": False, "raises": type(error).__name__, "message": str(error)[:200], "fields": [""]}
    return config, {"accepted": True, "derived": {name: _derived(config, name) for name in DERIVED}}


def _derived(config: Any, name: str) -> Any:
    try:
        return getattr(config, name)
    except (ValueError, ZeroDivisionError) as error:
        return {"raises": type(error).__name__, "message": str(error)[:200]}


def config(row: Row) -> Row:
    """Puts the question to vLLM 0.14 and 0.33."""
    with surroundings():
        return {"answer": made(row["fields"])[1]}


def config_hash(row: Row) -> Row:
    """Puts the question to vLLM 0.14 and 0.33.

    dpsim has no configuration of releases 0.17 and 0.24. Release 0.17 resets eplb_config.use_async with two all-to-all
    backends, and release 0.24 sets it by default.
    """
    with surroundings():
        (first, of_first), (second, of_second) = (made(row[which]) for which in ("first", "second"))
        if first is None or second is None:
            return {"answer": {"first": of_first, "second": of_second}}
        return {"answer": {"hash_equal": first.compute_hash() == second.compute_hash()}}
