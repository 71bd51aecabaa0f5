"""Source page 001: microbatches in threads (specification chapters 3 and 4); its ready barrier has three parties."""

from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.releases.record import nothing

PAGE_001 = nothing("source-001", "source page 001 contains only microbatches")._replace(microbatches=OverlapForward)
