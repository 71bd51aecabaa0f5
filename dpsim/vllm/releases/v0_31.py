"""Release 0.31: a finish sync in the first step; a first request does not set the coordinator's state (2.5).

Its need mask is that of 0.33 (6.4).
"""

from dpsim.vllm.engine.client import ClientView028
from dpsim.vllm.engine.coordination import Coordination031
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts028
from dpsim.vllm.engine.waves import Release031
from dpsim.vllm.pipeline.need_mask import needs_033
from dpsim.vllm.releases.record import Lockstep, nothing

V0_31 = nothing("0.31", "of release 0.31 only the engine loop and the need mask are modelled")._replace(
    need_mask=needs_033,
    lockstep=Lockstep(Release031, Coordination031, ClientView028, Control, RequestCounts028),
)
