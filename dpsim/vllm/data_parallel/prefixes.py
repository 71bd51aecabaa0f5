"""The prefix cache of one rank: which tokens of a prompt are cached, because another request has the same prefix.

Requests with one prefix begin with the same tokens, up to the end of the shorter prompt. A block of the prefix counts
as cached as soon as the scheduler has scheduled the step that writes it. Another request of the same step *reads blocks
that the step still writes*. The cache evicts nothing.

    >>> cache = PrefixCache(block_size=4)
    >>> cache.note("a", 10)                         # a step that writes ten tokens of the prefix
    >>> cache.hit("a", 9), cache.unwritten("a", 8)  # whole blocks, and one token remains to compute
    (8, True)
    >>> cache.end_step()
    >>> cache.hit("a", 8), cache.unwritten("a", 4)
    (4, False)

Sources: specification 1.8 and 3.3; vLLM's prefix cache, and its conditions for cascade attention. vLLM also estimates
whether cascade attention is faster; the model leaves this estimate out.
"""

from __future__ import annotations

from collections.abc import Sequence

CASCADE_TOKENS = 256
CASCADE_REQUESTS = 8
"""The least number of requests, and the least number of common tokens, for which vLLM uses cascade attention."""


class PrefixCache:
    """For each prefix, the tokens written by earlier steps and by the current one, on one rank."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._written: dict[str, int] = {}
        self._scheduled: dict[str, int] = {}

    def hit(self, prefix: str | None, prompt_tokens: int) -> int:
        """The tokens of a prompt that the rank does not compute: whole blocks, and at most all tokens but one."""
        if prefix is None:
            return 0
        return self._whole(min(self._scheduled.get(prefix, 0), prompt_tokens - 1))

    def unwritten(self, prefix: str | None, tokens: int) -> bool:
        """Whether the current step still writes some of the first `tokens` tokens of the prefix."""
        return prefix is not None and tokens > self._written.get(prefix, 0)

    def note(self, prefix: str | None, tokens: int) -> None:
        """Record that the current step computes a prompt up to `tokens`."""
        if prefix is not None:
            self._scheduled[prefix] = max(self._scheduled.get(prefix, 0), tokens)

    def end_step(self) -> None:
        self._written.update(self._scheduled)

    def cascades(self, prefixes: Sequence[str | None], in_common: int) -> bool:
        """Whether attention over a common prefix is computed only once.

        `prefixes`: of each request. `in_common`: the tokens that all requests have computed.
        """
        enough = len(prefixes) >= CASCADE_REQUESTS and self._whole(in_common) >= CASCADE_TOKENS
        return enough and len(set(prefixes)) == 1 and prefixes[0] is not None

    def _whole(self, tokens: int) -> int:
        return tokens // self.block_size * self.block_size
