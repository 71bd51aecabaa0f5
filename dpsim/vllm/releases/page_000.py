"""Source page 000: the batch agreement of data-parallel ranks (specification chapter 1), as in release 0.17.

The page is part of vLLM's V1 runner. Its microbatches are those of source page 001, which vLLM runs after this
agreement.
"""

from dpsim.vllm.data_parallel.async_balance import AsyncBalance
from dpsim.vllm.data_parallel.batch import Source000
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import Flow017
from dpsim.vllm.graphs.dispatcher import Dispatcher017
from dpsim.vllm.releases.page_001 import PAGE_001
from dpsim.vllm.releases.record import nothing

PAGE_000 = nothing("source-000", "source page 000 contains only the agreement of data-parallel ranks")._replace(
    agreement=Source000,
    flow=Flow017,
    dispatcher=Dispatcher017,
    microbatches=PAGE_001.microbatches,
    balance=ExpertBalance,
    async_balance=AsyncBalance,
)
