"""Source page 004: CUDA graphs (specification chapter 5), with a graph manager instead of a dispatcher."""

from dpsim.vllm.graphs.manager import Managed
from dpsim.vllm.releases.record import nothing

PAGE_004 = nothing("source-004", "source page 004 contains only CUDA graphs")._replace(dispatcher=Managed)
