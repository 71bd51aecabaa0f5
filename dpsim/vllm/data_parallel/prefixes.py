"""Prefixes that requests share: which tokens a rank has cached, and what follows for a batch.

Requests of the same prefix begin with the same tokens, up to the end of the shorter prompt. The blocks of a prompt
count as cached as soon as the scheduler has a step that writes them. So a request that is admitted into that very step
starts behind them, and *reads blocks that the step still writes*. The cache evicts nothing.

    >>> cache = PrefixCache(block_size=4)
    >>> cache.note("a", 10)                         # a step that writes ten tokens of the prefix
    >>> cache.hit("a", 9), cache.unwritten("a", 8)  # whole blocks, and one token remains to compute
    (8, True)
    >>> cache.end_step()
    >>> cache.hit("a", 8), cache.unwritten("a", 4)
    (4, False)

Sources: specification chapters 1.8 and 3.3; vLLM's prefix cache, and its conditions for cascade attention, without the
estimate of times that follows them.
"""

from __future__ import annotations

from collections.abc import Sequence

CASCADE_TOKENS = 256
CASCADE_REQUESTS = 8
"""Cascade attention is for at least this number of requests with this number of common tokens."""


class PrefixCache:
    """The cache of one rank, in tokens of each prefix: by steps before this one, and by this one."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._written: dict[str, int] = {}
        self._scheduled: dict[str, int] = {}

    def hit(self, prefix: str | None, prompt_tokens: int) -> int:
        """Tokens of a prompt that the rank does not compute."""
        if prefix is None:
            return 0
        return self._whole(min(self._scheduled.get(prefix, 0), prompt_tokens - 1))

    def unwritten(self, prefix: str | None, tokens: int) -> bool:
        """Whether this very step writes some of the first `tokens`, in whole blocks."""
        return prefix is not None and tokens > self._written.get(prefix, 0)

    def note(self, prefix: str | None, tokens: int) -> None:
        """Note that this step computes a prompt up to here."""
        if prefix is not None:
            self._scheduled[prefix] = max(self._scheduled.get(prefix, 0), tokens)

    def end_step(self) -> None:
        self._written.update(self._scheduled)

    def cascades(self, prefixes: Sequence[str | None], in_common: int) -> bool:
        """Whether attention goes over a common prefix once. `in_common`: tokens that all requests have computed."""
        enough = len(prefixes) >= CASCADE_REQUESTS and self._whole(in_common) >= CASCADE_TOKENS
        return enough and len(set(prefixes)) == 1 and prefixes[0] is not None

    def _whole(self, tokens: int) -> int:
        return tokens // self.block_size * self.block_size
