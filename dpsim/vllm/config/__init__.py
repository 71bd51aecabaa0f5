"""Configuration: vLLM's own names, their rules, and the values derived from them.

    base.py            the base of all parts: strict, frozen, with limits
    modes.py           modes of CUDA graphs
    topology.py        how many ranks, and which rank is what
    fields.py          the fields of the parallel configuration
    values.py          the same with sizes, and values that all releases compute alike
    surroundings.py    the machine and the environment of a configuration
    rules.py           the rules of source 003,
    rules_033.py       and those of release 0.33
    parallel.py        the parallel configuration of source 003: completed, held to its rules, derived values
    parallel_033.py    that of release 0.33
    forms.py           both by name, made from sizes and settings
    hash.py            settings that all engines must share, as a hash and as names
    ports.py           ports for later groups
    kv_memory.py       the size that all KV caches agree on
    scheduler.py       limits of a scheduler's step
    cache.py           the KV cache of a rank
    compilation.py     CUDA graphs: which are captured, and for which batches
    engine.py          all settings, flat; and those of single ranks

Nothing here knows a rank that runs: all of it is values and functions of values.
"""

from __future__ import annotations

from dpsim.vllm.config.base import MAX_RANKS, MAX_TOKENS, Size, StrictModel, Tokens
from dpsim.vllm.config.cache import CacheConfig
from dpsim.vllm.config.compilation import CompilationConfig
from dpsim.vllm.config.engine import EngineConfig, PartialConfig, broken_rules
from dpsim.vllm.config.fields import EPLBConfig, Microbatching, ParallelSettings
from dpsim.vllm.config.forms import FORMS
from dpsim.vllm.config.hash import compute_hash, differing, hashed_fields
from dpsim.vllm.config.kv_memory import sync_kv_cache_memory_size
from dpsim.vllm.config.modes import CUDAGraphMode, RuntimeMode
from dpsim.vllm.config.parallel import ExactNodes, ParallelConfig
from dpsim.vllm.config.parallel_033 import ParallelConfig033
from dpsim.vllm.config.ports import InitPorts
from dpsim.vllm.config.rules import Broken
from dpsim.vllm.config.scheduler import SchedulerConfig
from dpsim.vllm.config.surroundings import Surroundings
from dpsim.vllm.config.topology import ParallelSizes, Position, Topology

__all__ = [
    "FORMS",
    "MAX_RANKS",
    "MAX_TOKENS",
    "Broken",
    "CUDAGraphMode",
    "CacheConfig",
    "CompilationConfig",
    "EPLBConfig",
    "EngineConfig",
    "ExactNodes",
    "InitPorts",
    "Microbatching",
    "ParallelConfig",
    "ParallelConfig033",
    "ParallelSettings",
    "ParallelSizes",
    "PartialConfig",
    "Position",
    "RuntimeMode",
    "SchedulerConfig",
    "Size",
    "StrictModel",
    "Surroundings",
    "Tokens",
    "Topology",
    "broken_rules",
    "compute_hash",
    "differing",
    "hashed_fields",
    "sync_kv_cache_memory_size",
]
