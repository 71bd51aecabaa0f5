"""All values of a parallel configuration: its fields, and the values that every release computes from them.

Source: specification chapter 8.1 (derived values).
"""

from __future__ import annotations

from dpsim.vllm.config.base import Number
from dpsim.vllm.config.fields import ParallelSettings, Settings033
from dpsim.vllm.config.topology import ParallelSizes


class ParallelValues(ParallelSizes, ParallelSettings):
    """Sizes, settings, and the values that the constructor of a configuration computes."""

    world_size: Number = 0
    """The number of workers P·T·C, times D with the external launcher. The user never gives it."""
    data_parallel_index: Number = 0
    """The data-parallel rank at the start of this engine. A replica that becomes independent keeps it."""

    @property
    def workers(self) -> int:
        """The number of ranks of one replica: P·T·C."""
        return self.pipeline_parallel_size * self.tensor_parallel_size * self.prefill_context_parallel_size

    @property
    def external_launcher(self) -> bool:
        return self.distributed_executor_backend == "external_launcher"

    @property
    def data_parallel_given(self) -> bool:
        """Whether the fields set data parallelism, so that the environment does not matter."""
        return self.data_parallel_size > 1 or self.data_parallel_size_local == 0

    @property
    def world_size_across_dp(self) -> int:
        return self.world_size * self.data_parallel_size

    @property
    def use_ray(self) -> bool:
        return self.distributed_executor_backend == "ray"


class ParallelValues033(ParallelValues, Settings033):
    """Sizes, settings and computed values, with the fields of release 0.33."""
