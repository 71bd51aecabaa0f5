"""The table of vLLM's flags: the values of each flag, and its use in a scenario.

    used      the flag sets a field of the scenario
    checked   dpsim only checks the flag by vLLM's own rules
    ignored   the flag does not affect the coordination of ranks
    refused   dpsim does not model the effect of the flag, or cannot read its value

    >>> flag_of("--data_parallel_size").verdict, flag_of("-tp").about
    ('used', 'topology.tensor_parallel_size')

A flag has all of vLLM's spellings, and underscores are equal to dashes. Sources: vLLM's `EngineArgs` and the arguments
of its API server, releases 0.11 to 0.33.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpsim.vllm.from_vllm.ignored import IGNORED

Takes: TypeAlias = Literal["switch", "value", "optional", "values", "json"]
Verdict: TypeAlias = Literal["used", "checked", "ignored", "refused"]
Reads: TypeAlias = Literal["word", "number", "size"]

_TAKES: dict[str, Takes] = {"": "switch", "=": "value", "=?": "optional", "=*": "values", "=json": "json"}


@dataclass(frozen=True)
class CommandFlag:
    """`names`: vLLM's spellings, the long one first. `about`: the field that the flag sets, or why it sets none.

    `reads`: the values are words, whole numbers, or numbers of tokens such as `8k`.
    """

    names: tuple[str, ...]
    takes: Takes
    verdict: Verdict
    about: str
    reads: Reads = "word"

    @property
    def field(self) -> str:
        """vLLM's name of the setting."""
        return self.names[0].lstrip("-").replace("-", "_")


def _flag(spelled: str, verdict: Verdict, about: str, reads: Reads = "word") -> CommandFlag:
    """Returns a flag from its short form, which `dpsim.vllm.from_vllm.ignored` explains."""
    names, equals, rest = spelled.partition("=")
    return CommandFlag(tuple(names.split("/")), _TAKES[equals + rest], verdict, about, reads)


USED: tuple[tuple[str, str, Reads], ...] = (
    ("--data-parallel-size/-dp=", "topology.data_parallel_size", "number"),
    ("--pipeline-parallel-size/-pp=", "topology.pipeline_parallel_size", "number"),
    ("--tensor-parallel-size/-tp=", "topology.tensor_parallel_size", "number"),
    ("--decode-context-parallel-size/-dcp=", "topology.decode_context_parallel_size", "number"),
    ("--enable-expert-parallel/-ep", "config.enable_expert_parallel", "word"),
    ("--all2all-backend=", "config.all2all_backend", "word"),
    ("--expert-placement-strategy=", "config.expert_placement_strategy", "word"),
    ("--enable-eplb", "config.enable_eplb", "word"),
    ("--eplb-config=json", "config.eplb_config, by its keys", "word"),
    ("--num-redundant-experts=", "config.eplb_config", "number"),
    ("--eplb-window-size=", "config.eplb_config", "number"),
    ("--eplb-step-interval=", "config.eplb_config", "number"),
    ("--eplb-log-balancedness", "config.eplb_config", "word"),
    ("--dcp-kv-cache-interleave-size=", "config.dcp_kv_cache_interleave_size", "number"),
    ("--cp-kv-cache-interleave-size=", "config.cp_kv_cache_interleave_size", "number"),
    ("--dcp-comm-backend=", "config.dcp_comm_backend", "word"),
    ("--dcp-q-replicate", "config.dcp_q_replicate", "word"),
    ("--enable-hc-sp", "config.enable_hc_sp", "word"),
    ("--enable-batch-sharded-sampling", "config.enable_batch_sharded_sampling", "word"),
    ("--enable-ep-weight-filter", "config.enable_ep_weight_filter", "word"),
    ("--enable-shm-tensor-arena", "config.enable_shm_tensor_arena", "word"),
    ("--enable-fault-tolerance", "config.enable_fault_tolerance", "word"),
    ("--fault-tolerance-config=json", "config.fault_tolerance_config, by its keys", "word"),
    ("--dp-sync-interval=", "config.dp_sync_interval", "number"),
    ("--distributed-timeout-seconds=", "config.distributed_timeout_seconds", "number"),
    ("--cpu-distributed-timeout-seconds=", "config.cpu_distributed_timeout_seconds", "number"),
    ("--data-parallel-backend/-dpb=", "config.data_parallel_backend", "word"),
    ("--distributed-executor-backend=", "config.distributed_executor_backend", "word"),
    ("--enable-dbo", "config.enable_dbo", "word"),
    ("--ubatch-size=", "config.ubatch_size", "number"),
    ("--dbo-decode-token-threshold=", "config.dbo_decode_token_threshold", "number"),
    ("--dbo-prefill-token-threshold=", "config.dbo_prefill_token_threshold", "number"),
    ("--async-scheduling", "config.async_scheduling", "word"),
    ("--disable-nccl-for-dp-synchronization", "config.disable_nccl_for_dp_synchronization", "word"),
    ("--max-num-seqs=", "config.max_num_seqs", "size"),
    ("--max-num-batched-tokens=", "config.max_num_batched_tokens", "size"),
    ("--block-size=", "config.block_size", "number"),
    ("--num-gpu-blocks-override=", "config.num_gpu_blocks_override, where pp_tokens runs", "number"),
    ("--enforce-eager", "config.enforce_eager", "word"),
    ("--cudagraph-capture-sizes/--cuda-graph-sizes=*", "config.cudagraph_capture_sizes", "number"),
    ("--max-cudagraph-capture-size=", "config.max_cudagraph_capture_size", "number"),
    ("--performance-mode=", "config.performance_mode", "word"),
    ("--optimization-level=", "config.cudagraph_mode: NONE at level 0, PIECEWISE at 1", "number"),
    ("--compilation-config/-cc/-O=json", "config.cudagraph_mode and more, by its keys", "word"),
    ("--enable-lora", "config.enable_lora, where dp_batch runs", "word"),
    ("--speculative-config/-sc=json", "config.num_speculative_tokens and more, by its keys", "word"),
    ("--api-server-count/-asc=", "config._api_process_count, where front ends run: engine, whole_engine", "number"),
    ("--max-model-len=", "the workload: no request is longer", "size"),
    ("--model=", "the name of the scenario", "word"),
)

_PLACE = "the placement of ranks: a scenario contains the whole deployment"
_REQUESTS = "the distribution of requests: in a scenario, ranks receive them in turn"

CHECKED: tuple[tuple[str, str, Reads], ...] = (
    ("--prefill-context-parallel-size/-pcp=", "refused above 1: no protocol of dpsim has such ranks", "number"),
    ("--data-parallel-size-local/-dpl=", _PLACE, "number"),
    ("--data-parallel-start-rank/-dpr=", _PLACE, "number"),
    ("--data-parallel-rank/-dpn=", _PLACE, "number"),
    ("--data-parallel-hybrid-lb/-dph", _REQUESTS, "word"),
    ("--data-parallel-external-lb/-dpe", _REQUESTS, "word"),
    ("--headless", _PLACE, "word"),
    ("--nnodes/-n=", _PLACE, "number"),
    ("--node-rank/-r=", _PLACE, "number"),
    ("--ray-workers-use-nsight", "the profiler of workers", "word"),
    ("--runner=", "refused but for `auto` and `generate`: other models generate no tokens", "word"),
    ("--task=", "refused but for `auto` and `generate`: other models generate no tokens", "word"),
)

_OWN_CLASS = "dpsim does not model a class of yours"
_ENGINE_0 = "of vLLM's engine V0, which has no such protocols"
_DRAFTS = 'of vLLM\'s engine V0; expected --speculative-config \'{"method": ..., "num_speculative_tokens": N}\''

REFUSED = (
    ("--config=", "dpsim does not read this file; expected its lines as flags"),
    ("--scheduler-cls=", _OWN_CLASS),
    ("--worker-cls=", _OWN_CLASS),
    ("--worker-extension-cls=", _OWN_CLASS),
    ("--additional-config=json", "plugins read it, and may change any behavior"),
    ("--enable-elastic-ep", "the number of ranks would change during a run, which dpsim does not model"),
    ("--num-scheduler-steps=", _ENGINE_0),
    ("--use-v2-block-manager", _ENGINE_0),
    ("--preemption-mode=", _ENGINE_0),
    ("--speculative-model=", _DRAFTS),
    ("--num-speculative-tokens=", _DRAFTS),
    ("--help/-h", "prints a help text; expected a command that serves"),
)

FLAGS: tuple[CommandFlag, ...] = (
    *(_flag(spelled, "used", about, reads) for spelled, about, reads in USED),
    *(_flag(spelled, "checked", about, reads) for spelled, about, reads in CHECKED),
    *(_flag(spelled, "refused", about) for spelled, about in REFUSED),
    *(_flag(spelled, "ignored", about) for about, several in IGNORED.items() for spelled in several.split()),
)
"""All flags."""

_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
SPELLINGS = (*_BY_NAME, *(f"--no-{flag.names[0][2:]}" for flag in FLAGS if flag.takes == "switch"))
"""All spellings, among which an error suggests a similar one for an unknown flag."""


def normal(name: str) -> str:
    """Returns the name with dashes instead of underscores, up to the first dot, which begins a JSON key.

    >>> normal("--compilation_config.cudagraph_mode")
    '--compilation-config.cudagraph_mode'
    """
    flag, dot, key = name.partition(".")
    return flag.replace("_", "-") + dot + key


def flag_of(name: str) -> CommandFlag | None:
    """Returns the flag with that spelling, or None."""
    return _BY_NAME.get(normal(name))
