"""The right value of every token of every request, without a device, without stages and without a scheduler.

`Oracle` is the model of `dpsim.vllm.model.kernels` for one request, a token at a time:

    >>> [Oracle(0, 3).token(position) for position in range(6)]
    [3, 20, 37, 186, 775, 885]

If drafts are accepted, a request needs fewer steps, but its tokens are the same: speculative decoding is exact.
"""

from __future__ import annotations

from dpsim.vllm.model.kernels import (
    LAYERS,
    MODULUS,
    cached,
    chosen,
    embedded,
    guessed,
    masked,
    mixed,
    permitted,
    prompt_token,
)


class Oracle:
    """All tokens of one request, prompt first, up to the position that a caller asks for."""

    def __init__(
        self, request: int, prompt_tokens: int, structured: bool = False, before: tuple[int, ...] = ()
    ) -> None:
        """`structured`: its tokens follow the grammar. `before`: tokens before the prompt, which has `prompt_tokens`
        new ones.
        """
        self._of = request, prompt_tokens, structured, before
        self.structured = structured
        self.prompt_tokens = len(before) + prompt_tokens
        new = range(len(before), self.prompt_tokens)
        self.tokens = [*before, *(prompt_token(request, position) for position in new)]
        self._sums = [0] * LAYERS  # of each layer's cache, weighted, as far as `_done`
        self._done = 0

    def __reduce__(self) -> tuple[type[Oracle], tuple[int, int, bool, tuple[int, ...]]]:
        """The arguments of the oracle, without its cached tokens, so ranks may share it, whatever was asked before."""
        return type(self), self._of

    def token(self, position: int) -> int:
        while len(self.tokens) <= position:
            token = self.tokens[self._done]
            hidden = embedded(token, self._done)
            for layer in range(LAYERS):
                self._sums[layer] += cached(hidden, self._done, layer) * (self._done + 1)
                hidden = mixed(self._sums[layer] % MODULUS, hidden, layer)
            self._done += 1
            if self._done == len(self.tokens):
                next_token = chosen(hidden, token)
                self.tokens.append(masked(next_token, permitted(token)) if self.structured else next_token)
        return self.tokens[position]

    def first(self, length: int) -> tuple[int, ...]:
        """The first `length` tokens."""
        return tuple(self.token(position) for position in range(length))

    def drafts(self, position: int, count: int) -> list[int]:
        """The drafts after the token at a position."""
        drafts = [self.token(position)]
        for _ in range(count):
            drafts.append(guessed(drafts[-1]))
        return drafts[1:]

    def mask(self, position: int, count: int) -> tuple[int, ...]:
        """The kinds that the grammar permits after the token at a position and after each of `count` drafts."""
        if not self.structured:
            return ()
        return tuple(permitted(token) for token in (self.token(position), *self.drafts(position, count)))

    def accepted(self, position: int, count: int) -> int:
        """The number of right drafts among `count` after a position, up to the first wrong one."""
        for number, draft in enumerate(self.drafts(position, count)):
            if draft != self.token(position + 1 + number):
                return number
        return count

    def digest(self, length: int) -> int:
        """One number for the first `length` tokens."""
        return sum((position + 1) * token for position, token in enumerate(self.first(length))) % MODULUS
