"""All settings of an engine in one flat model, as on vLLM's command line and in a scenario's section `config`.

    >>> config = EngineConfig(enable_dbo=True, async_scheduling=True)
    >>> config.num_ubatches, config.syncs_on_host, config.uniform_decode_query_len
    (2, True, 1)

The sizes are part of the topology, not of these settings. Both together make a `ParallelConfig`:

    >>> config.parallel_config(Topology(data_parallel_size=2)).world_size_across_dp
    2

A node with another flag has a `PartialConfig`, which replaces some of the common settings:

    >>> PartialConfig(enable_dbo=False).over(config).enable_dbo
    False
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
    model_validator,
)

from dpsim.vllm.config.cache import CacheConfig
from dpsim.vllm.config.compilation import CompilationConfig
from dpsim.vllm.config.fields import ParallelSettings, Settings033
from dpsim.vllm.config.forms import FORMS, broken_in, parallel_config
from dpsim.vllm.config.parallel import ParallelConfig
from dpsim.vllm.config.rules import Broken
from dpsim.vllm.config.scheduler import SchedulerConfig
from dpsim.vllm.config.surroundings import Surroundings
from dpsim.vllm.config.topology import Topology


def _or_registered(name: Any, otherwise: ValidatorFunctionWrapHandler) -> Any:
    """Also accepts the name of rules that a release of another package has registered."""
    return name if isinstance(name, str) and name in FORMS else otherwise(name)


class EngineConfig(ParallelSettings, SchedulerConfig, CacheConfig, CompilationConfig, Settings033):
    """All settings of an engine."""

    parallel_rules: Annotated[Literal["source-003", "0.33", "exact-nodes"], WrapValidator(_or_registered)] = Field(
        default="source-003",
        description="The release whose rules about parallelism apply. The field is dpsim's, not vLLM's.",
    )

    @property
    def syncs_on_host(self) -> bool:
        """Whether ranks agree over gloo or NCCL; if unset, gloo with asynchronous scheduling (specification 1.4)."""
        unset = self.disable_nccl_for_dp_synchronization is None
        return self.async_scheduling if unset else bool(self.disable_nccl_for_dp_synchronization)

    def parallel_config(
        self, topology: Topology, around: Surroundings | None = None, data_parallel_rank: int | None = None
    ) -> ParallelConfig:
        """Returns the parallel configuration of an engine.

        `data_parallel_rank` is the engine's rank at start, which replaces the configured one. `around` describes
        machine and environment. If `disable_nccl_for_dp_synchronization` is unset, `async_scheduling` decides it
        (specification 8.1). Raises pydantic's ValidationError, which names fields, values and rules.
        """
        values: dict[str, Any] = {"disable_nccl_for_dp_synchronization": self.syncs_on_host}
        if data_parallel_rank is not None:
            values["data_parallel_rank"] = data_parallel_rank
        form, around = FORMS[self.parallel_rules], around or Surroundings()
        return parallel_config(form, topology, self.model_copy(update=values), around)


class PartialConfig(EngineConfig):
    """Settings of single ranks. Only the given fields apply, even if a field is given with its default value."""

    def over(self, config: EngineConfig) -> EngineConfig:
        """Returns `config` with the given settings instead. Raises ValidationError if the result is not valid."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return EngineConfig.model_validate({**config.model_dump(), **given})

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Skips the check whether the settings fit together, because `over` makes this check with all settings."""
        return self

    @model_serializer(mode="plain")
    def _given(self) -> dict[str, Any]:
        fields = type(self).model_fields
        return {fields[name].alias or name: getattr(self, name) for name in fields if name in self.model_fields_set}


def broken_rules(config: EngineConfig, topology: Topology) -> list[Broken]:
    """Returns the broken rules of the chosen release, for rank 0 on a machine with all devices and packages."""
    try:
        config.parallel_config(topology, Surroundings.of_rank())
    except ValidationError as error:
        return broken_in(error)
    return []
