"""Release 0.33 with repairs of what it leaves unprotected: forms that no release has, each by this name.

microbatches    one that raises releases its siblings, while those of every release wait without end (4.7)
scheduler       a request with drafts waits for its token, also without asynchronous scheduling (6.10)

`dpsim.vllm.releases.protects` lists all places where a form protects.
"""

from dpsim.vllm.overlap.repaired import ForwardRepaired
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.releases.v0_33 import V0_33

REPAIRED = V0_33._replace(name="0.33-repaired", microbatches=ForwardRepaired, scheduler=PipelineScheduler)
