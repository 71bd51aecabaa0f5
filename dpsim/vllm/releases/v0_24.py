"""Release 0.24: engines sync two numbers and pause in two phases, and uniform decodes find their graphs.

Section 5.4 of the specification describes the graphs. The pipelines are source page 002 unchanged (section 6.10).
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

V0_24 = nothing("0.24", "dpsim models only the engine loop, the graphs and the pipelines of release 0.24")._replace(
    dispatcher=Dispatcher024,
    tokens=Page002Tokens,
    need_mask=needs_024,
    transfer=WaitsForDescription,
    scheduler=UnpacedDrafts,
    lockstep=Lockstep(Release024, Coordination024, ClientView, Control024, RequestCounts024),
)
