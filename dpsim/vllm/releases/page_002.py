"""Source page 002: sampled tokens and hidden states of a pipeline (specification chapters 6 and 7), in two records.

`PAGE_002` has the corrected need mask and width of a token broadcast. `PAGE_002_VERBATIM` has those of the page, which
fail with speculative decoding. The page contains no scheduler. The records use one in which a request waits until its
token has arrived, which no release does for drafts (specification 6.10).
"""

from dpsim.vllm.pipeline.need_mask import needs_024, needs_033
from dpsim.vllm.pipeline.page_002 import Page002Tokens
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from dpsim.vllm.pipeline.scheduler import PipelineScheduler
from dpsim.vllm.pipeline.transfer import WaitsForDescription
from dpsim.vllm.releases.record import nothing

PAGE_002 = nothing("source-002", "source page 002 contains only pipelines")._replace(
    tokens=SampledTokens, need_mask=needs_033, transfer=WaitsForDescription, scheduler=PipelineScheduler
)
PAGE_002_VERBATIM = PAGE_002._replace(name="page-002", tokens=Page002Tokens, need_mask=needs_024)
