"""Configuration: vLLM's own names, their rules, and the values derived from them.

    topology      how many ranks, and which rank is what
    fields        the fields of the parallel configuration       values    with what is alike in all releases
    surroundings  what a configuration finds where it is built   rules     of source 003; rules_033, of release 0.33
    parallel      the configuration of source 003, complete; parallel_033, of release 0.33; forms: both by name
    hash          what all engines have to have alike
    ports         ports for groups to come                       kv_memory the size that all caches agree on
    scheduler, cache, compilation                                engine    all settings, flat

Nothing here knows a rank that runs: all of it is values and functions of values.
"""

from __future__ import annotations

from dpsim.config.base import MAX_RANKS, MAX_TOKENS, Size, StrictModel, Tokens
from dpsim.config.cache import CacheConfig
from dpsim.config.compilation import CompilationConfig
from dpsim.config.engine import EngineConfig, PartialConfig, broken_rules
from dpsim.config.fields import EPLBConfig, Microbatching, ParallelSettings
from dpsim.config.forms import FORMS
from dpsim.config.hash import compute_hash, differing, hashed_fields
from dpsim.config.kv_memory import sync_kv_cache_memory_size
from dpsim.config.modes import CUDAGraphMode, RuntimeMode
from dpsim.config.parallel import ExactNodes, ParallelConfig
from dpsim.config.parallel_033 import ParallelConfig033
from dpsim.config.ports import InitPorts
from dpsim.config.rules import Broken
from dpsim.config.scheduler import SchedulerConfig
from dpsim.config.surroundings import Surroundings
from dpsim.config.topology import ParallelSizes, Position, Topology

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
