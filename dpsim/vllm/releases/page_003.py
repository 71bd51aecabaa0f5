"""Source page 003: the engine loop and the parallel configuration (chapters 2 and 8), as in release 0.14."""

from dpsim.vllm.config import ParallelConfig
from dpsim.vllm.releases.record import nothing
from dpsim.vllm.releases.v0_14 import V0_14

PAGE_003 = nothing("source-003", "source page 003 is about the engine loop and the configuration alone")._replace(
    lockstep=V0_14.lockstep, config=ParallelConfig
)
