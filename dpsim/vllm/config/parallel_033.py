"""The parallel configuration of release 0.33: more fields and rules than source 003, and nodes that divide exactly.

    >>> config = ParallelConfig033(data_parallel_size=2, all2all_backend="pplx")
    >>> config.all2all_backend  # replaces a backend that 0.33 removed
    'allgather_reducescatter'

Sources: specification chapters 8.1 to 8.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ValidationInfo, field_validator

from dpsim.vllm.config.fields import Settings033
from dpsim.vllm.config.parallel import ParallelConfig
from dpsim.vllm.config.rules import OfOneField, Rule, uneven_nodes
from dpsim.vllm.config.rules_033 import OF_ONE_FIELD, RELEASE_033
from dpsim.vllm.config.surroundings import Surroundings


class ParallelConfig033(ParallelConfig, Settings033):
    """The parallel configuration of release 0.33."""

    release: ClassVar[str] = "0.33.0"
    rules: ClassVar[tuple[Rule, ...]] = RELEASE_033
    of_one_field: ClassVar[Mapping[str, OfOneField]] = OF_ONE_FIELD
    eplb_is_async: ClassVar[bool] = True
    sequence_parallel_backends: ClassVar[frozenset[str]] = frozenset(
        {
            *("allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency", "deepep_v2"),
            *("mori_high_throughput", "mori_low_latency", "nixl_ep", "flashinfer_nvlink_one_sided", "passthrough"),
        }
    )
    not_hashed: ClassVar[frozenset[str]] = ParallelConfig.not_hashed | {
        *(
            "coord_store_port",
            "enable_shm_tensor_arena",
            "numa_bind",
            "numa_bind_nodes",
            "numa_bind_cpus",
            "assigned_physical_gpu_ids",
        ),
    }
    told_by_front_end: ClassVar[tuple[str, ...]] = (*ParallelConfig.told_by_front_end, "coord_store_port")

    @field_validator(*OF_ONE_FIELD)
    @classmethod
    def _keep_their_rules(cls, value: Any, info: ValidationInfo) -> Any:
        return cls._kept(value, info)

    def _backends(self, around: Surroundings) -> dict[str, Any]:
        """Replaces removed backends by the default one. No environment variable overrides the field."""
        eplb = super()._backends(around)["eplb_config"]
        if self.enable_eplb and eplb.communicator is None:
            without_nixl = "pynccl" if self.enable_elastic_ep else "torch_gloo"
            eplb = eplb.model_copy(update={"communicator": "nixl" if around.nixl else without_nixl})
        removed = self.all2all_backend in ("naive", "pplx")
        return {"all2all_backend": "allgather_reducescatter" if removed else self.all2all_backend, "eplb_config": eplb}

    def _ports(self, around: Surroundings) -> dict[str, Any]:
        return {} if self.enable_elastic_ep else super()._ports(around)

    def _data_parallel(self, around: Surroundings) -> dict[str, Any]:
        """Sets the largest size of an engine that is not elastic to its own size, whatever the user gave."""
        values = super()._data_parallel(around)
        size, most = values.get("data_parallel_size", self.data_parallel_size), self.elastic_ep_max_dp_size
        return values | {"elastic_ep_max_dp_size": most if self.enable_elastic_ep and most is not None else size}

    def _needs_executor(self) -> bool:
        return self.world_size_across_dp > 1

    def _without_custom_all_reduce(self, around: Surroundings) -> bool:
        unsupported = not around.cuda_alike or around.switched_on("VLLM_BATCH_INVARIANT")
        return unsupported or self.disable_custom_all_reduce

    @property
    def nnodes_within_dp(self) -> int:
        """The nodes of one replica, at least 1 with an external balancer.

        Without one, ValueError if nodes do not divide exactly; ZeroDivisionError on a node without engines.
        """
        if self.nnodes == 1:
            return 1
        node_groups = self.data_parallel_size // self.data_parallel_size_local
        if self.data_parallel_external_lb:
            return max(self.nnodes // node_groups, 1)
        found = uneven_nodes(self)
        if found is not None:
            raise ValueError(str(found))
        return self.nnodes // node_groups
