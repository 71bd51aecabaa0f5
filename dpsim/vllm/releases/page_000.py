"""Source page 000: the agreement of data-parallel ranks (chapter 1), as in release 0.17 on the V1 runner.

Its microbatches are those of page 001, which continues this page.
"""

from dpsim.vllm.data_parallel.async_balance import AsyncBalance
from dpsim.vllm.data_parallel.batch import Source000
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import Flow017
from dpsim.vllm.graphs.dispatcher import Dispatcher017
from dpsim.vllm.releases.page_001 import PAGE_001
from dpsim.vllm.releases.record import nothing

PAGE_000 = nothing("source-000", "source page 000 is about the agreement of data-parallel ranks alone")._replace(
    agreement=Source000,
    flow=Flow017,
    dispatcher=Dispatcher017,
    microbatches=PAGE_001.microbatches,
    balance=ExpertBalance,
    async_balance=AsyncBalance,
)
