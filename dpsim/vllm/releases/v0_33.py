"""Release 0.33: engines sync in the first step, and ranks publish their ports; V2 ranks send batches (1.7)."""

from dpsim.vllm.config import ParallelConfig033
from dpsim.vllm.data_parallel.async_balance import AsyncBalance
from dpsim.vllm.data_parallel.batch import Source000
from dpsim.vllm.data_parallel.captured_v2 import CapturedForwardV2
from dpsim.vllm.data_parallel.drafter_v2 import DrafterV2
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance
from dpsim.vllm.data_parallel.flow import Flow033
from dpsim.vllm.data_parallel.step_v2 import DataParallelStepV2
from dpsim.vllm.engine.client import ClientView033
from dpsim.vllm.engine.coordination import Coordination033
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts028
from dpsim.vllm.engine.waves import Release033
from dpsim.vllm.graphs.dispatcher import Dispatcher033
from dpsim.vllm.overlap.forms import Forward033, ForwardV2, OverlapStepV2
from dpsim.vllm.pipeline.need_mask import needs_033
from dpsim.vllm.pipeline.pacing import UnpacedDrafts
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.transfer import Transfer
from dpsim.vllm.releases.record import Lockstep, Release, RunnerV2, Startup
from dpsim.vllm.startup.groups import Kinds
from dpsim.vllm.startup.ports import PublishedPorts

V0_33 = Release(
    name="0.33",
    agreement=Source000,
    flow=Flow033,
    dispatcher=Dispatcher033,
    microbatches=Forward033,
    balance=ExpertBalance,
    async_balance=AsyncBalance,
    tokens=SampledTokens,
    need_mask=needs_033,
    transfer=Transfer,
    scheduler=UnpacedDrafts,
    lockstep=Lockstep(Release033, Coordination033, ClientView033, Control, RequestCounts028),
    startup=Startup(PublishedPorts, Kinds),
    config=ParallelConfig033,
    v2=RunnerV2(
        step=DataParallelStepV2,
        drafter=DrafterV2,
        captured=CapturedForwardV2,
        microbatches=ForwardV2,
        overlap_step=OverlapStepV2,
    ),
    variables=False,
)
