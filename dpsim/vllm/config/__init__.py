"""The configuration of an engine: fields with vLLM's names, vLLM's rules for them, and the values derived from them.

base.py            the base class of all parts: strict, immutable, with limits
modes.py           modes of CUDA graphs
topology.py        the number of ranks, and the position and groups of each rank
fields.py          the fields of the parallel configuration
values.py          these fields with sizes, and values that all releases compute in the same way
surroundings.py    the machine and the environment that a configuration depends on
rules.py           the rules of source page 003 (vLLM's `config/parallel.py`, release 0.14.0)
rules_033.py       the rules of release 0.33
parallel.py        the parallel configuration of source page 003: completed, checked, with derived values
parallel_033.py    the parallel configuration of release 0.33
forms.py           both parallel configurations by name, made from sizes and settings
ports.py           the ports of groups that processes create at start-up
kv_memory.py       the agreement of all ranks on the memory of KV caches
scheduler.py       the limits of a scheduler's step
cache.py           the KV cache of a rank
compilation.py     CUDA graphs: the sizes that a rank captures, and the batches that use them
engine.py          all settings in one flat model, and settings of single ranks
"""

from __future__ import annotations

from dpsim.vllm.config.base import MAX_RANKS, MAX_TOKENS, Size, StrictModel, Tokens
from dpsim.vllm.config.cache import CacheConfig
from dpsim.vllm.config.compilation import CompilationConfig
from dpsim.vllm.config.engine import EngineConfig, PartialConfig, broken_rules
from dpsim.vllm.config.fields import EPLBConfig, Microbatching, ParallelSettings
from dpsim.vllm.config.forms import FORMS
from dpsim.vllm.config.kv_memory import sync_kv_cache_memory_size
from dpsim.vllm.config.modes import CUDAGraphMode, RuntimeMode
from dpsim.vllm.config.parallel import ExactNodes, ParallelConfig, compute_hash, differing, hashed_fields
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
