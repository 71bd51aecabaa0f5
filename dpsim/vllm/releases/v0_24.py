"""Release 0.24: two numbers in the finish sync, pauses in two phases, uniform decodes that find their graphs (5.4).

Its pipelines are source page 002 as it stands (6.10).
"""

from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.engine.coordination import Coordination024
from dpsim.vllm.engine.pause import Control024
from dpsim.vllm.engine.request_counts import RequestCounts024
from dpsim.vllm.engine.waves import Release024
from dpsim.vllm.graphs.dispatcher import Dispatcher024
from dpsim.vllm.pipeline.need_mask import needs_024
from dpsim.vllm.pipeline.pacing import UnpacedDrafts
from dpsim.vllm.pipeline.page_002 import Page002Tokens
from dpsim.vllm.pipeline.transfer import WaitsForDescription
from dpsim.vllm.releases.record import Lockstep, nothing

V0_24 = nothing("0.24", "of release 0.24 only the engine loop, the graphs and pipelines are modelled")._replace(
    dispatcher=Dispatcher024,
    tokens=Page002Tokens,
    need_mask=needs_024,
    transfer=WaitsForDescription,
    scheduler=UnpacedDrafts,
    lockstep=Lockstep(Release024, Coordination024, ClientView, Control024, RequestCounts024),
)
