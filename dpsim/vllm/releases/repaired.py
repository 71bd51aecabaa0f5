"""Release 0.33 with repairs: a form with protections that no release of vLLM has.

microbatches    a microbatch that raises wakes its siblings; in every release they wait without end (4.7)
scheduler       a request with drafts waits for its token, also without asynchronous scheduling (6.10)

The numbers are sections of the engine's specification. `dpsim.vllm.releases.protects` lists all protections that no
release has.
"""

from dpsim.vllm.overlap.repaired import ForwardRepaired
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.releases.v0_33 import V0_33

REPAIRED = V0_33._replace(name="0.33-repaired", microbatches=ForwardRepaired, scheduler=PipelineScheduler)
