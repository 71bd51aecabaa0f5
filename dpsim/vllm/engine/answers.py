"""Messages of one engine to its clients: finished requests, and answers to their requests.

    ("FINISHED", "r0")    ("ANSWERED", "PAUSE")    ("REFUSED", "RESUME", "a pause is still on its way")

Source: specification chapter 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.engine.scheduler import Finished

OUTPUTS = "outputs"


class Answers:
    """The messages of one engine."""

    def __init__(self, rank: Rank, layout: Layout) -> None:
        self.rank = rank
        self.layout = layout

    def finished(self, requests: Sequence[Finished]) -> None:
        for request, client in requests:
            self.rank.send(self.layout.frontend(client), OUTPUTS, ("FINISHED", request), "engine.output")

    def answered(self, what: str, client: int) -> None:
        self.rank.send(self.layout.frontend(client), OUTPUTS, ("ANSWERED", what), "engine.answer")

    def refused(self, what: str, client: int, why: str) -> None:
        """Send the error in words instead of an answer."""
        self.rank.send(self.layout.frontend(client), OUTPUTS, ("REFUSED", what, why), "engine.refusal")
