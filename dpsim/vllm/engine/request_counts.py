"""The counts of an engine's requests, which the engine sends to the coordinator (specification 2.3 and 2.5).

An engine sends its counts when they have changed, with the numbers of the step and the wave. They may be out of date
when a front end balances by them. vLLM's method is `_maybe_publish_request_counts`. The releases:

    Untold              never: front ends balance by the requests that they have sent themselves
    RequestCounts       behind each step: 0.14
    RequestCounts024    before and behind each step, as new requests wait before they run
    RequestCounts028    the same, with the usage of the KV cache as a third number

Sources: specification 2.3 (row 3) and 2.5; the engine's own code for the place before or behind the step.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.coordination import Load
from dpsim.vllm.engine.layout import COORDINATOR
from dpsim.vllm.engine.scheduler import Scheduler
from dpsim.vllm.engine.waves import EngineWaves


class RequestCounts:
    """The counts of engine `index`. `last`: the last sent, waiting and running requests."""

    def __init__(self, rank: Rank, index: int, waves: EngineWaves, scheduler: Scheduler) -> None:
        self.rank, self.index, self.waves, self.scheduler = rank, index, waves, scheduler
        self.last = (0, 0)

    def before_step(self) -> None:
        """The loop calls this after the engine has read its messages, and before it schedules."""

    def after_step(self) -> None:
        self.publish()

    def publish(self) -> None:
        counts = self.scheduler.counts
        if counts != self.last:
            self.last = counts
            event = "counts", self.index, self.waves.step_counter, self.waves.current_wave, *self.load()
            self.rank.send(self.rank.service(COORDINATOR), "events", event, "engine.counts")

    def load(self) -> Load:
        """The numbers that the engine sends."""
        return self.scheduler.counts


class RequestCounts024(RequestCounts):
    """Release 0.24: the engine also sends counts before each step."""

    def before_step(self) -> None:
        self.publish()


class RequestCounts028(RequestCounts024):
    """Releases 0.28 to 0.33: the engine also sends the usage of its KV cache."""

    def load(self) -> Load:
        return *self.scheduler.counts, self.scheduler.kv_cache_usage


class Untold(RequestCounts):
    """Sends no counts. Front ends then balance by the requests that they have sent."""

    def publish(self) -> None:
        pass


COUNTS = ("own", "published")
"""The forms of the piece `counts`: front ends balance by their own requests, or by published counts."""
