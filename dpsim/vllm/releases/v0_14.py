"""Release 0.14: engines sync one flag, take ports from a list, and pad batches if the configuration says so."""

from dpsim.vllm.config import ParallelConfig
from dpsim.vllm.data_parallel.batch import Release014 as Agreement014
from dpsim.vllm.data_parallel.expert_balance import ExpertBalance014
from dpsim.vllm.data_parallel.flow import Flow014
from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Coordination
from dpsim.vllm.engine.pause import Control024
from dpsim.vllm.engine.request_counts import RequestCounts
from dpsim.vllm.engine.waves import Release014 as Waves014
from dpsim.vllm.graphs.dispatcher import Dispatcher014
from dpsim.vllm.overlap.forms import Forward014
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.transfer import Blocking
from dpsim.vllm.releases.record import Absent, Lockstep, Release, Startup
from dpsim.vllm.startup.groups import Kinds014
from dpsim.vllm.startup.ports import ListedPorts

V0_14 = Release(
    name="0.14",
    agreement=Agreement014,
    flow=Flow014,
    dispatcher=Dispatcher014,
    microbatches=Forward014,
    balance=ExpertBalance014,
    async_balance=Absent("release 0.14 has no separate group to move experts while steps run"),
    tokens=SampledTokens,
    need_mask=Absent("release 0.14 has no mask of the rows that need a token"),
    transfer=Blocking,
    scheduler=PipelineScheduler,
    lockstep=Lockstep(Waves014, Coordination, ClientView, Control024, RequestCounts),
    startup=Startup(ListedPorts, Kinds014),
    config=ParallelConfig,
    v2=Absent("the V2 runner of release 0.14 is not modelled"),
    variables=True,
)
