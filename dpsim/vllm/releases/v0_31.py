"""Release 0.31: engines sync in the first step; a first request does not change the coordinator's state.

Sections 2.5 and 6.4 of the specification describe the messages and the need mask, which is that of release 0.33.
"""

from dpsim.vllm.engine.client import ClientView028
from dpsim.vllm.engine.coordination import Coordination031
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts028
from dpsim.vllm.engine.waves import Release031
from dpsim.vllm.pipeline.need_mask import needs_033
from dpsim.vllm.releases.record import Lockstep, nothing

V0_31 = nothing("0.31", "dpsim models only the engine loop and the need mask of release 0.31")._replace(
    need_mask=needs_033,
    lockstep=Lockstep(Release031, Coordination031, ClientView028, Control, RequestCounts028),
)
