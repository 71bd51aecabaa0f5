"""Messages of one engine to its clients: finished requests, answers to calls, and errors (specification 2.5).

("FINISHED", "r0")    ("ANSWERED", "PAUSE")    ("REFUSED", "RESUME", "a pause is still on its way")
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.layout import Layout
from dpsim.vllm.engine.scheduler import Finished

OUTPUTS = "outputs"


class Answers:
    """Sends the messages of one engine to its clients. A client is the number of a front end."""

    def __init__(self, rank: Rank, layout: Layout) -> None:
        self.rank = rank
        self.layout = layout

    def finished(self, requests: Sequence[Finished]) -> None:
        for request, client in requests:
            self.rank.send(self.layout.frontend(client), OUTPUTS, ("FINISHED", request), "engine.output")

    def answered(self, what: str, client: int) -> None:
        self.rank.send(self.layout.frontend(client), OUTPUTS, ("ANSWERED", what), "engine.answer")

    def refused(self, what: str, client: int, why: str) -> None:
        """Send an error instead of an answer. `why`: the error in words."""
        self.rank.send(self.layout.frontend(client), OUTPUTS, ("REFUSED", what, why), "engine.refusal")
