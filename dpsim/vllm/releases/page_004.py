"""Source page 004: its graph manager (chapter 5) instead of a dispatcher."""

from dpsim.vllm.graphs.managed import Managed
from dpsim.vllm.releases.record import nothing

PAGE_004 = nothing("source-004", "source page 004 is about CUDA graphs alone")._replace(dispatcher=Managed)
