"""Release 0.17: the V1 runner of source page 000, and a V2 runner whose ranks send graph sizes (specification 1.7)."""

from dpsim.vllm.data_parallel.step_v2_017 import DataParallelStepV2017
from dpsim.vllm.releases.page_000 import PAGE_000
from dpsim.vllm.releases.record import Absent, RunnerV2, nothing

ALONE = Absent("the V2 runner of release 0.17 has only steps here: no microbatches, drafters or captures")

V0_17 = nothing("0.17", "dpsim models only the steps of data-parallel ranks of release 0.17")._replace(
    agreement=PAGE_000.agreement,
    flow=PAGE_000.flow,
    dispatcher=PAGE_000.dispatcher,
    balance=PAGE_000.balance,
    async_balance=PAGE_000.async_balance,
    v2=RunnerV2(
        step=DataParallelStepV2017,
        drafter=ALONE,
        captured=ALONE,
        microbatches=ALONE,
        overlap_step=ALONE,
    ),
)
