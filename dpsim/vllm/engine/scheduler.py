"""The scheduler of one engine: which requests count as work, and which of them the next step runs.

A request takes a number of steps, with one token each. A pause changes which requests the scheduler runs, and which
count as work (specification 2.3 and 2.6):

    UNPAUSED     waiting requests start while there is room; all requests count as work
    PAUSED_NEW   running requests continue and count as work; waiting requests do neither
    PAUSED_ALL   no request runs, and none counts as work

    >>> scheduler = Scheduler(max_num_seqs=1)
    >>> scheduler.add("a", steps=2, client=0), scheduler.add("b", steps=1, client=0)
    (None, None)
    >>> scheduler.schedule(PauseState.UNPAUSED)
    ('a',)
    >>> scheduler.update(("a",)), scheduler.update(("a",))  # finished requests, with their clients
    ([], [('a', 0)])
    >>> scheduler.has_unfinished(PauseState.UNPAUSED), scheduler.has_unfinished(PauseState.PAUSED_NEW)
    (True, False)
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.vllm.engine.waves import PauseState

RequestId = str
Finished = tuple[RequestId, int]
"""A request, and the number of the client that waits for it."""


class Scheduler:
    """The requests of one engine, first come, first served. `max_num_seqs`: how many requests run at a time."""

    def __init__(self, max_num_seqs: int) -> None:
        self.max_num_seqs = max_num_seqs
        self.waiting: list[RequestId] = []
        self.running: list[RequestId] = []
        self.steps: dict[RequestId, int] = {}
        self.clients: dict[RequestId, int] = {}

    def add(self, request: RequestId, steps: int, client: int) -> None:
        """Add a request that takes this number of steps."""
        self.waiting.append(request)
        self.steps[request] = steps
        self.clients[request] = client

    def abort(self, requests: Sequence[RequestId]) -> list[Finished]:
        """Drop requests. A request that has finished or was aborted before is no error (invariant I-EL-12)."""
        return [self._forget(request) for request in requests if request in self.steps]

    def abort_all(self) -> list[Finished]:
        return self.abort([*self.running, *self.waiting])

    def schedule(self, pause: PauseState) -> tuple[RequestId, ...]:
        """The requests of the next step, one token each."""
        if pause is PauseState.PAUSED_ALL:
            return ()
        while pause is PauseState.UNPAUSED and self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.pop(0))
        return tuple(self.running)

    def update(self, batch: Sequence[RequestId]) -> list[Finished]:
        """Account for the result of a step. Returns the requests that it finishes. Requests aborted meanwhile do not
        count.
        """
        for request in batch:
            if request in self.steps:
                self.steps[request] -= 1
        return [self._forget(request) for request in batch if self.steps.get(request) == 0]

    def has_unfinished(self, pause: PauseState) -> bool:
        """Whether there is work that may run under this pause state."""
        if pause is PauseState.PAUSED_ALL:
            return False
        return bool(self.running) or (pause is PauseState.UNPAUSED and bool(self.waiting))

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of waiting and of running requests."""
        return len(self.waiting), len(self.running)

    @property
    def kv_cache_usage(self) -> float:
        """The share of the KV cache that requests use, from 0 to 1. It is 0 here, because the cache has no limit."""
        return 0.0

    def _forget(self, request: RequestId) -> Finished:
        (self.running if request in self.running else self.waiting).remove(request)
        del self.steps[request]
        return request, self.clients.pop(request)
