"""Source page 003: the parallel configuration and the engine loop of release 0.14 (specification chapters 8 and 2)."""

from dpsim.vllm.config import ParallelConfig
from dpsim.vllm.releases.record import nothing
from dpsim.vllm.releases.v0_14 import V0_14

PAGE_003 = nothing("source-003", "source page 003 contains only the engine loop and the configuration")._replace(
    lockstep=V0_14.lockstep, config=ParallelConfig
)
