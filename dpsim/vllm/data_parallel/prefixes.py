"""Prefixes that requests share: what is cached of them on a rank, and what follows for a batch.

Requests of the same prefix begin with the same tokens, as far as the shorter prompt goes. The blocks of a prompt count
as cached as soon as a step is scheduled that writes them, so a request that is admitted into that very step goes on
after them, and *reads blocks that are still being written*. Nothing is ever evicted.

    >>> cache = PrefixCache(block_size=4)
    >>> cache.note("a", 10)                         # a step that writes ten tokens of the prefix
    >>> cache.hit("a", 9), cache.unwritten("a", 8)  # whole blocks, and at least one token is left to compute
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
"""Cascade attention is for so many requests with so many tokens in common, and not for fewer."""


class PrefixCache:
    """What is cached on one rank, in tokens of each prefix: by steps before this one, and by this one."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._written: dict[str, int] = {}
        self._scheduled: dict[str, int] = {}

    def hit(self, prefix: str | None, prompt_tokens: int) -> int:
        """Tokens of a prompt that need not be computed."""
        if prefix is None:
            return 0
        return self._whole(min(self._scheduled.get(prefix, 0), prompt_tokens - 1))

    def unwritten(self, prefix: str | None, tokens: int) -> bool:
        """Whether some of the first `tokens`, whole blocks, are written by this very step."""
        return prefix is not None and tokens > self._written.get(prefix, 0)

    def note(self, prefix: str | None, tokens: int) -> None:
        """This step computes a prompt up to here."""
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
