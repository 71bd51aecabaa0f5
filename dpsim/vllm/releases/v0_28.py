"""Release 0.28: the engine loop of 0.24; front ends balance by their requests in flight (specification 2.5)."""

from dpsim.vllm.engine.client import ClientView028
from dpsim.vllm.engine.coordination import Coordination028
from dpsim.vllm.engine.pause import Control024
from dpsim.vllm.engine.request_counts import RequestCounts028
from dpsim.vllm.engine.waves import Release024
from dpsim.vllm.releases.record import Lockstep, nothing

V0_28 = nothing("0.28", "dpsim models only the engine loop of release 0.28")._replace(
    lockstep=Lockstep(Release024, Coordination028, ClientView028, Control024, RequestCounts028),
)
