"""A whole parallel configuration as values: the fields, and the values that all releases compute from them alike.

`ParallelValues` has no rules and no release. Rules are in `dpsim.vllm.config.rules`, and a release's
`ParallelConfig` keeps its rules.

Source: specification chapter 8.1.
"""

from __future__ import annotations

from dpsim.vllm.config.base import Number
from dpsim.vllm.config.fields import ParallelSettings, Settings033
from dpsim.vllm.config.topology import ParallelSizes


class ParallelValues(ParallelSizes, ParallelSettings):
    """Sizes and settings, and the values that the construction of a configuration fills in."""

    world_size: Number = 0
    """P·T·C, times D with the external launcher. Never given, always filled in."""
    data_parallel_index: Number = 0
    """The data-parallel rank at the start of this engine. An independent replica keeps it."""

    @property
    def workers(self) -> int:
        """P·T·C: the ranks of one replica."""
        return self.pipeline_parallel_size * self.tensor_parallel_size * self.prefill_context_parallel_size

    @property
    def external_launcher(self) -> bool:
        return self.distributed_executor_backend == "external_launcher"

    @property
    def data_parallel_given(self) -> bool:
        """Whether the fields have data parallelism, so that the environment does not matter."""
        return self.data_parallel_size > 1 or self.data_parallel_size_local == 0

    @property
    def world_size_across_dp(self) -> int:
        return self.world_size * self.data_parallel_size

    @property
    def use_ray(self) -> bool:
        return self.distributed_executor_backend == "ray"


class ParallelValues033(ParallelValues, Settings033):
    """The same with the fields of release 0.33."""
