"""Source page 001: microbatches in threads (chapters 3 and 4), with three parties in the ready barrier."""

from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.releases.record import nothing

PAGE_001 = nothing("source-001", "source page 001 is about microbatches alone")._replace(microbatches=OverlapForward)
