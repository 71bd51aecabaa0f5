"""A release that another package would add, in one file: its ranks never split a step."""

from __future__ import annotations

from typing import Any

from dpsim.vllm.data_parallel.batch import Source000
from dpsim.vllm.releases import V0_33, register_release


class Agreement099(Source000):
    """Ranks never agree on microbatches."""

    def agreed_microbatching(self, *asked: Any) -> bool:
        return False


V0_99 = V0_33._replace(name="0.99", agreement=Agreement099)
register_release(V0_99, __name__)
