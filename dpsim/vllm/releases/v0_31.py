"""Release 0.31: a finish sync in the first step; a first request does not set the coordinator's state (2.5)."""

from dpsim.vllm.engine.client import ClientView028
from dpsim.vllm.engine.coordination import Coordination031
from dpsim.vllm.engine.pause import Control
from dpsim.vllm.engine.request_counts import RequestCounts028
from dpsim.vllm.engine.waves import Release031
from dpsim.vllm.releases.record import Lockstep, nothing

V0_31 = nothing("0.31", "of release 0.31 only the engine loop is modelled")._replace(
    lockstep=Lockstep(Release031, Coordination031, ClientView028, Control, RequestCounts028),
)
