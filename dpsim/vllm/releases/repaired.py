"""Release 0.33 with what it leaves unprotected: forms that no release has, each by this name.

microbatches    one that raises lets its siblings go, where those of every release wait without end (4.7)
"""

from dpsim.vllm.overlap.repaired import ForwardRepaired
from dpsim.vllm.releases.v0_33 import V0_33

REPAIRED = V0_33._replace(name="0.33-repaired", microbatches=ForwardRepaired)
