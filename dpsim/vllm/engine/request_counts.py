"""The counts of an engine's requests: the engine sends them to the coordinator, which publishes them (2.3, 2.5).

An engine sends its counts when they have changed, stamped with the step of the wave and the wave. The coordinator
publishes them when no other message has arrived for a while (`Coordination.published`). So a front end balances by
counts that were true once, and may be old. vLLM's name of it is `_maybe_publish_request_counts`.

    Untold              never: front ends balance by the requests that they have sent themselves
    RequestCounts       behind each step: 0.14
    RequestCounts024    before and behind each step, as new requests wait before they run
    RequestCounts028    the same, with the usage of the KV cache as a third number

Sources: specification chapters 2.3 (row 3) and 2.5; before and behind the step by the engine's own text.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank
from dpsim.vllm.engine.coordination import Load
from dpsim.vllm.engine.layout import COORDINATOR
from dpsim.vllm.engine.scheduler import Scheduler
from dpsim.vllm.engine.waves import EngineWaves


class RequestCounts:
    """The counts of one engine. `index`: its data-parallel rank; `last`: the last counts sent, waiting and running."""

    def __init__(self, rank: Rank, index: int, waves: EngineWaves, scheduler: Scheduler) -> None:
        self.rank, self.index, self.waves, self.scheduler = rank, index, waves, scheduler
        self.last = (0, 0)

    def before_step(self) -> None:
        """The engine has taken its messages, and scheduled nothing of them yet."""

    def after_step(self) -> None:
        self.publish()

    def publish(self) -> None:
        counts = self.scheduler.counts
        if counts != self.last:
            self.last = counts
            event = "counts", self.index, self.waves.step_counter, self.waves.current_wave, *self.load()
            self.rank.send(self.rank.service(COORDINATOR), "events", event, "engine.counts")

    def load(self) -> Load:
        """The counts that the engine sends."""
        return self.scheduler.counts


class RequestCounts024(RequestCounts):
    """0.24."""

    def before_step(self) -> None:
        self.publish()


class RequestCounts028(RequestCounts024):
    """0.28 to 0.33."""

    def load(self) -> Load:
        return *self.scheduler.counts, self.scheduler.kv_cache_usage


class Untold(RequestCounts):
    """No counts, for front ends that do not balance by them."""

    def publish(self) -> None:
        pass


COUNTS = ("own", "published")
"""The forms of the piece `counts`: by which counts front ends balance."""
