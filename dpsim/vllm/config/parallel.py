"""The parallel configuration of source page 003 (release 0.14.0): its completion, rules and hash.

A `ParallelConfig` that exists is complete and breaks no rule:

    >>> config = ParallelConfig(data_parallel_size=4, tensor_parallel_size=2)
    >>> config.world_size, config.world_size_across_dp, config.distributed_executor_backend
    (2, 8, 'mp')

`ParallelConfig.model_validate(fields, context=Surroundings(...))` passes the number of GPUs and the environment. Like
vLLM's `__post_init__`, the completion is not idempotent: with several data-parallel ranks, each call takes another port
from the list (invariant I-CF-9).

Sources: specification chapters 8.0 to 8.4 (fields, derived values, validation, ports, hash).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, ClassVar, Self

from pydantic import ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dpsim.vllm.config.rules import OF_ONE_FIELD, SOURCE_003, Broken, Case, OfOneField, Rule, uneven_nodes
from dpsim.vllm.config.surroundings import Surroundings
from dpsim.vllm.config.values import ParallelValues

RULE = "parallel_rule"
"""The pydantic error type of broken rules. The context of such an error contains `broken`, the list of them."""


class ParallelConfig(ParallelValues):
    """The parallel configuration of source page 003, release 0.14.0."""

    release: ClassVar[str] = "0.14.0"
    rules: ClassVar[tuple[Rule, ...]] = SOURCE_003
    of_one_field: ClassVar[Mapping[str, OfOneField]] = OF_ONE_FIELD
    eplb_is_async: ClassVar[bool] = False
    sequence_parallel_backends: ClassVar[frozenset[str]] = frozenset(
        {"allgather_reducescatter", "naive", "deepep_high_throughput", "deepep_low_latency"}
    )
    not_hashed: ClassVar[frozenset[str]] = frozenset(
        {
            *("data_parallel_rank", "data_parallel_rank_local", "data_parallel_size_local", "data_parallel_index"),
            *("data_parallel_backend", "data_parallel_external_lb", "data_parallel_hybrid_lb"),
            *("data_parallel_master_ip", "data_parallel_master_port", "data_parallel_master_port_list"),
            *("data_parallel_rpc_port", "rank", "master_addr", "master_port", "node_rank", "nnodes"),
            *("max_parallel_loading_workers", "disable_custom_all_reduce", "ray_workers_use_nsight"),
            *("ray_runtime_env", "placement_group", "distributed_executor_backend"),
            *("worker_cls", "sd_worker_cls", "worker_extension_cls", "api_process_count", "api_process_rank"),
        }
    )
    """Fields that may differ between the engines of a group (specification 8.4)."""
    told_by_front_end: ClassVar[tuple[str, ...]] = (
        "data_parallel_size",
        "data_parallel_master_ip",
        "data_parallel_master_port",
        "data_parallel_master_port_list",
    )

    @field_validator(*OF_ONE_FIELD)
    @classmethod
    def _keep_their_rules(cls, value: Any, info: ValidationInfo) -> Any:
        return cls._kept(value, info)

    @classmethod
    def _kept(cls, value: Any, info: ValidationInfo) -> Any:
        rule = cls.of_one_field.get(str(info.field_name))
        found = None if rule is None else rule(value)
        if found is not None:
            raise PydanticCustomError(RULE, "{text}", {"text": str(found), "broken": (found,)})
        return value

    @model_validator(mode="after")
    def _completed(self, info: ValidationInfo) -> Self:
        around = info.context if isinstance(info.context, Surroundings) else Surroundings()
        config = self.post_init(around)
        computed = {name: getattr(self, name) for name in ("world_size", "data_parallel_index")}
        found = [
            Broken(name, value, "none given: it is computed")
            for name, value in computed.items()
            if name in self.model_fields_set
        ]
        found += self.broken(Case(self, config, around))
        if found:
            text = "; ".join(map(str, found))
            raise PydanticCustomError(RULE, "{text}", {"text": text, "broken": tuple(found)})
        self.__dict__.update(config.__dict__)
        return self

    @classmethod
    def broken(cls, case: Case) -> list[Broken]:
        """Returns the rules that a configuration breaks, one finding each."""
        return [found for rule in cls.rules if (found := rule(case)) is not None]

    # ---- completing

    def post_init(self, around: Surroundings) -> Self:
        """Completes the unset fields, and checks no rule. ValueError: an environment variable is no number."""
        filled = self._with(**self._backends(around))
        filled = filled._with(world_size=filled._ranks())
        filled = filled._with(**filled._data_parallel(around))
        filled = filled._with(data_parallel_index=filled.data_parallel_rank)
        if filled.distributed_executor_backend is None:
            filled = filled._with(distributed_executor_backend=filled.default_executor(around))
        return filled._with(disable_custom_all_reduce=filled._without_custom_all_reduce(around))

    def _ranks(self) -> int:
        """Returns the number of ranks that one launcher starts. An external launcher starts those of all replicas."""
        return self.workers * (self.data_parallel_size if self.external_launcher else 1)

    def _with(self, **values: Any) -> Self:
        return self.model_copy(update=values)

    def _backends(self, around: Surroundings) -> dict[str, Any]:
        """Returns the all-to-all backend, which the environment overrides, and the settings of expert balancing."""
        eplb = self.eplb_config
        if eplb.use_async is None:
            eplb = eplb.model_copy(update={"use_async": self.eplb_is_async})
        return {
            "all2all_backend": around.environ.get("VLLM_ALL2ALL_BACKEND", self.all2all_backend),
            "eplb_config": eplb,
        }

    def _data_parallel(self, around: Surroundings) -> dict[str, Any]:
        """Returns the fields of data parallelism: from the configuration if it sets them, else from the environment.

        The environment sets them for offline SPMD jobs.
        """
        if not self.data_parallel_given:
            rank = around.number("VLLM_DP_RANK", 0)
            return {
                "data_parallel_size": around.number("VLLM_DP_SIZE", 1),
                "data_parallel_rank": rank,
                "data_parallel_rank_local": around.number("VLLM_DP_RANK_LOCAL", rank),
                "data_parallel_master_ip": around.environ.get("VLLM_DP_MASTER_IP", "127.0.0.1"),
                "data_parallel_master_port": around.number("VLLM_DP_MASTER_PORT", 0),
            }
        values: dict[str, Any] = {}
        if self.external_launcher:
            ranks = self.world_size // self.data_parallel_size
            values["data_parallel_rank"] = around.number("RANK", self.data_parallel_rank * ranks) // ranks
        return values | self._ports(around)

    def _ports(self, around: Surroundings) -> dict[str, Any]:
        """Returns the ports: the last one of the list becomes the master port (specification 8.3)."""
        *rest, master = self.data_parallel_master_port_list or around.open_ports
        return {"data_parallel_master_port_list": tuple(rest), "data_parallel_master_port": master}

    def default_executor(self, around: Surroundings) -> str | None:
        """The first executor that applies (specification 8.0); None if a node has fewer devices than workers."""
        if not self._needs_executor():
            return "uni"
        if around.platform == "tpu" and around.switched_on("VLLM_XLA_USE_SPMD"):
            return "uni"
        if around.platform == "cuda" and self.nnodes > 1:
            return "mp"
        if around.platform == "cuda" and around.devices is not None and around.devices < self.world_size:
            return None
        if self.data_parallel_backend == "ray":
            return "ray"
        in_group = around.ray and (self.placement_group is not None or around.ray_placement_group)
        return "ray" if in_group else "mp"

    def _needs_executor(self) -> bool:
        return self.world_size > 1

    def _without_custom_all_reduce(self, around: Surroundings) -> bool:
        if not around.cuda_alike or around.switched_on("VLLM_BATCH_INVARIANT"):
            return True
        return self.disable_custom_all_reduce or self.nnodes > 1

    def engine_apart(self, around: Surroundings) -> bool:
        """Whether the engine core has its own process (VLLM_ENABLE_V1_MULTIPROCESSING).

        Never with an external launcher: each process that it starts contains a worker and its engine core.
        """
        return not self.external_launcher and around.number("VLLM_ENABLE_V1_MULTIPROCESSING", 1) == 1

    def after_handshake(self, front_end: ParallelConfig) -> Self:
        """With what the front end sends (specification 9.2, step 4); the engine sends back the hash of this."""
        return self._with(**{name: getattr(front_end, name) for name in self.told_by_front_end})

    # ---- derived values

    @property
    def nnodes_within_dp(self) -> int:
        """The nodes of one replica, rounded down (to 0). ZeroDivisionError on a node without engines."""
        return 1 if self.nnodes == 1 else self.nnodes // (self.data_parallel_size // self.data_parallel_size_local)

    @property
    def node_rank_within_dp(self) -> int:
        """This node's number among those of its replica. ZeroDivisionError if `nnodes_within_dp` raises it or is 0."""
        return self.node_rank % self.nnodes_within_dp

    @property
    def local_world_size(self) -> int:
        """The number of workers of a replica on one node. Raises ZeroDivisionError as `node_rank_within_dp` does."""
        return self.world_size // self.nnodes_within_dp

    @property
    def use_sequence_parallel_moe(self) -> bool:
        """Whether each tensor-parallel rank of an expert layer computes only a part of the tokens."""
        sizes = self.tensor_parallel_size > 1 and self.data_parallel_size > 1
        return self.all2all_backend in self.sequence_parallel_backends and self.enable_expert_parallel and sizes

    def independent(self) -> Self:
        """One replica of a dense model, alone: its size is 1, and only `data_parallel_index` has its number."""
        nodes = {"nnodes": self.nnodes_within_dp, "node_rank": self.node_rank_within_dp}
        sizes = {"data_parallel_size": 1, "data_parallel_size_local": 1, "data_parallel_rank": 0}
        return self._with(**sizes, **nodes)


def nodes_hold_whole_replicas(case: Case) -> Broken | None:
    """The rule of the healthy twin: the divisions in `nnodes_within_dp` and `local_world_size` have no remainder."""
    nodes, local, size = case.config.nnodes, case.config.data_parallel_size_local, case.config.data_parallel_size
    if nodes == 1 or local > size:
        return None
    if local == 0:
        return Broken("data_parallel_size_local", 0, f"1 or more, as nnodes is {nodes}")
    found = uneven_nodes(case.config)
    if found is None and case.config.world_size % case.config.nnodes_within_dp:
        return Broken("nnodes", nodes, f"as many as share the {case.config.world_size} workers of a replica evenly")
    return found


class ExactNodes(ParallelConfig):
    """Source 003 with one more rule, which refuses the nodes that source 003 counts wrongly."""

    rules: ClassVar[tuple[Rule, ...]] = (*SOURCE_003, nodes_hold_whole_replicas)


def hashed_fields(config: ParallelConfig) -> dict[str, Any]:
    """Returns the fields of the hash as JSON values; a nested field has a dotted name."""
    data = config.model_dump(mode="json", exclude=set(config.not_hashed))
    return dict(sorted(_flat(data)))


def compute_hash(config: ParallelConfig) -> str:
    """Returns SHA-256 over the sorted JSON of the fields, equal in every process (invariant I-CF-10).

    It leaves out fields that may differ between engines, graphs, the scheduler, the model, the environment (8.4).
    """
    text = json.dumps(hashed_fields(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def differing(one: ParallelConfig, other: ParallelConfig) -> tuple[str, ...]:
    """Returns the hashed fields that differ or that one of the two lacks; none exactly if the hashes are equal."""
    first, second = hashed_fields(one), hashed_fields(other)
    missing = object()
    names = sorted(first.keys() | second.keys())
    return tuple(name for name in names if first.get(name, missing) != second.get(name, missing))


def _flat(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in data.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return found
