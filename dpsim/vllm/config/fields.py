"""The fields of vLLM's parallel configuration: names, types and defaults, without rules that relate two fields.

The types accept what any release accepts. A rule about one field that all releases share is its type. The rules of a
release then refuse some values (`dpsim.vllm.config.rules`).

    >>> ParallelSettings(enable_dbo=True, ubatch_size=4).num_ubatches
    2

Sources: specification chapters 8.0 (fields) and 3.1 (microbatches).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue

from dpsim.vllm.config.base import MAX_TOKENS, Flag, Number, StrictModel

Name = Annotated[str, Field(strict=True, max_length=1000)]
AtLeast0 = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[int, Field(ge=1, strict=True)]
Threshold = Annotated[int, Field(ge=0, le=MAX_TOKENS, strict=True)]

All2AllBackend: TypeAlias = Literal[
    "allgather_reducescatter",
    "naive",
    "pplx",
    "deepep_high_throughput",
    "deepep_low_latency",
    "deepep_v2",
    "mori_high_throughput",
    "mori_low_latency",
    "moonep",
    "nixl_ep",
    "flashinfer_all2allv",
    "flashinfer_nvlink_two_sided",
    "flashinfer_nvlink_one_sided",
    "passthrough",
]


class EPLBConfig(StrictModel):
    """Expert-parallel load balancing: when and how ranks move experts."""

    window_size: Number = 1000
    """The number of steps over which ranks record the load of experts."""
    step_interval: Number = 3000
    """The number of steps from one rearrangement of experts to the next."""
    num_redundant_experts: AtLeast0 = 0
    """The number of additional copies of experts, over all expert-parallel ranks."""
    log_balancedness: Flag = False
    """Whether engines log the balance of the experts' load, which needs a separate all-reduce."""
    log_balancedness_interval: Number = 1
    """The number of steps from one log of the balance to the next."""
    use_async: Flag | None = None
    """Whether ranks move experts while steps run. Unset: the release's default, no in source 003 and yes in 0.33."""
    policy: Literal["default"] = "default"
    """The policy that places experts; vLLM has only one."""
    communicator: Literal["torch_nccl", "torch_gloo", "nixl", "pynccl"] | None = None
    """The library that transfers experts. Unset: the engine chooses it at start. Release 0.33 only."""
    enable_migration_batching: Flag = False
    """Whether ranks move experts of several layers together. Release 0.33 only."""


class FaultToleranceConfig(StrictModel):
    """The behavior of an engine after an error. Release 0.33 only."""

    engine_recovery_timeout_sec: Number = 120
    """Seconds for which an engine waits for instructions before it raises the error."""


class Microbatching(StrictModel):
    """Which batches ranks split, and into how many microbatches (specification 3.1)."""

    enable_dbo: Flag = False
    """Whether a step may run as two microbatches that overlap (dual-batch overlap)."""
    ubatch_size: Annotated[int, Field(ge=0, le=64, strict=True)] = 0
    """The number of microbatches of a step, if `enable_dbo` is not set. 0 or 1: no split."""
    dbo_decode_token_threshold: Threshold = 32
    """A rank with a batch of decodes and fewer tokens does not wish to split it."""
    dbo_prefill_token_threshold: Threshold = 512
    """A rank with a batch that contains prefills and fewer tokens does not wish to split it."""

    @property
    def use_ubatching(self) -> bool:
        return self.enable_dbo or self.ubatch_size > 1

    @property
    def num_ubatches(self) -> int:
        """U, the microbatches of a step; 0 or 1 if ranks split no batch. `enable_dbo` overrides `ubatch_size`."""
        return 2 if self.enable_dbo else self.ubatch_size


class ParallelSettings(Microbatching):
    """The fields of source page 003 (release 0.14.0), without the sizes."""

    model_config = ConfigDict(populate_by_name=True)

    disable_nccl_for_dp_synchronization: Flag | None = None
    """Whether ranks agree over gloo rather than NCCL. Unset: as async_scheduling."""

    data_parallel_size_local: AtLeast0 = 1
    """The number of engines on this node; 0: none."""
    data_parallel_rank: Number = 0
    """The data-parallel rank of the first engine on this node."""
    data_parallel_rank_local: Number | None = None
    """The number of the engine among those of its node. Unset: the engine chooses it at start."""
    data_parallel_master_ip: Name = "127.0.0.1"
    """The address of the node on which data-parallel rank 0 runs."""
    data_parallel_rpc_port: Number = 29550
    """The port of the handshake between engines and front end."""
    data_parallel_master_port: Number = 29500
    """The port of the store through which members of data-parallel groups find each other."""
    data_parallel_master_port_list: Annotated[
        tuple[Number, ...], Field(alias="_data_parallel_master_port_list", max_length=1000)
    ] = ()
    """Free ports for later groups; a process takes the last one first."""
    data_parallel_backend: Literal["mp", "ray"] = "mp"
    """The library that starts engines on other nodes: processes (mp) or Ray."""
    data_parallel_external_lb: Flag = False
    """Whether each engine has a separate front end, and a load balancer outside of vLLM selects an engine."""
    data_parallel_hybrid_lb: Flag = False
    """Whether each node has separate front ends, and a load balancer outside of vLLM selects a node."""
    is_moe_model: Flag | None = None
    """Whether the model has experts. Unset: unknown."""
    enable_expert_parallel: Flag = False
    """Whether the experts are distributed over data-parallel and tensor-parallel ranks."""
    enable_eplb: Flag = False
    """Whether ranks move experts according to their load."""
    eplb_config: EPLBConfig = EPLBConfig.model_construct()
    expert_placement_strategy: Literal["linear", "round_robin"] = "linear"
    """The order in which experts are assigned to ranks: in blocks (linear) or in turns (round_robin)."""
    all2all_backend: All2AllBackend = "allgather_reducescatter"
    """The library that sends tokens to their experts. Some values change what ranks must agree on."""
    max_parallel_loading_workers: Number | None = None
    """The engine ignores this field and prints a warning."""
    disable_custom_all_reduce: Flag = False
    """Whether tensor-parallel ranks use NCCL instead of vLLM's all-reduce."""
    ray_workers_use_nsight: Flag = False
    """Whether Ray profiles its workers with Nsight; valid only with Ray."""
    ray_runtime_env: dict[str, JsonValue] | None = None
    """The runtime environment of Ray's workers."""
    placement_group: Name | None = None
    """The name of a Ray placement group."""
    distributed_executor_backend: Name | None = None
    """ray, mp, uni, external_launcher, or the path of a class. Unset: the engine chooses at start."""
    worker_cls: Name = "auto"
    """The class of a worker; with auto, the platform chooses it. dpsim only compares this field."""
    sd_worker_cls: Name = "auto"
    """The class of a worker for speculative decoding. dpsim only compares this field."""
    worker_extension_cls: Name = ""
    """An additional base class of workers. dpsim only compares this field."""
    master_addr: Name = "127.0.0.1"
    """The address of the first node, for an engine on several nodes."""
    master_port: Number = 29501
    """The port on that node through which the nodes of an engine find each other."""
    node_rank: AtLeast0 = 0
    """The number of this node, from 0, among the nodes of an engine."""
    nnodes: Positive = 1
    """The number of nodes of the deployment."""
    rank: Number = 0
    """The number of the process among those of its engine; vLLM sets it at start."""
    dcp_kv_cache_interleave_size: Number = 1
    """Deprecated: `cp_kv_cache_interleave_size` replaced it."""
    cp_kv_cache_interleave_size: Number = 1
    """The number of consecutive tokens that one context-parallel rank stores. Any size is valid here."""
    api_process_count: Annotated[int, Field(alias="_api_process_count", gt=0, strict=True)] = 1
    """The number of front ends of this deployment; vLLM sets it from `--api-server-count`."""
    api_process_rank: Annotated[int, Field(alias="_api_process_rank", ge=-1, strict=True)] = 0
    """The number of the front end that created this configuration; -1: no front end."""


class Settings033(StrictModel):
    """The fields that release 0.33 has in addition to those of source page 003."""

    enable_elastic_ep: Flag = False
    """Whether ranks may join and leave while the engine serves."""
    elastic_ep_max_dp_size: Positive | None = None
    """The largest data_parallel_size to which an elastic engine may grow. Unset, or without elastic EP:
    data_parallel_size.
    """
    dp_sync_interval: Positive = 16
    """The number of steps from one finish sync of the engines to the next."""
    enable_fault_tolerance: Flag = False
    """Whether engines report faults and survive some of them. Engines compare it at start-up."""
    fault_tolerance_config: FaultToleranceConfig = FaultToleranceConfig.model_construct()
    enable_hc_sp: Flag = False
    """Whether hyper-connections use sequence parallelism. Engines compare it at start-up."""
    enable_batch_sharded_sampling: Flag | None = None
    """Whether each tensor-parallel rank samples a part of the requests. Unset: the engine chooses at start."""
    enable_ep_weight_filter: Flag = False
    """Whether a rank loads only the weights of its experts. Engines compare it at start-up."""
    enable_shm_tensor_arena: Flag = False
    """Whether processes of a node share tensors in memory. dpsim accepts this field and ignores it."""
    dcp_q_replicate: Flag | None = None
    """Whether decode context parallelism replicates queries. Unset: the engine chooses at start."""
    allow_auto_resolve_cp_interleave_size: Annotated[
        bool, Field(alias="_allow_auto_resolve_cp_interleave_size", strict=True)
    ] = True
    """Whether vLLM may choose `cp_kv_cache_interleave_size` itself."""
    numa_bind: Flag = False
    """Whether the engine binds workers to NUMA nodes."""
    numa_bind_nodes: tuple[Number, ...] | None = None
    """The NUMA node of each worker. Unset: the engine chooses at start."""
    numa_bind_cpus: tuple[Name, ...] | None = None
    """The cores of each worker, such as 0-15. Unset: all cores of its NUMA node."""
    assigned_physical_gpu_ids: tuple[Number, ...] | None = None
    """The GPUs of this engine, by their numbers on the node. Unset: the engine chooses at start."""
    distributed_timeout_seconds: Number | None = None
    """Seconds after which a device group times out. Unset: torch's default."""
    cpu_distributed_timeout_seconds: Number | None = None
    """Seconds after which a CPU group times out. Unset: torch's default."""
    dcp_comm_backend: Literal["ag_rs", "a2a"] = "ag_rs"
    """The collectives of decode context parallelism: all-gather and reduce-scatter (ag_rs), or all-to-all (a2a)."""
    coord_store_port: Annotated[int, Field(alias="_coord_store_port", strict=True)] = 0
    """The port of the store in which ranks publish the ports that they have bound; 0: no store."""
