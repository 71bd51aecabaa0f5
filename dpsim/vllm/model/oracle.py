"""What every token of every request has to be, known without a device, without stages and without a scheduler.

`Oracle` is the model of `dpsim.vllm.model.kernels` for one request, a token at a time:

    >>> [Oracle(0, 3).token(position) for position in range(6)]
    [3, 20, 37, 186, 775, 885]

Where drafts are accepted a request needs fewer steps, but its tokens are the same: speculative decoding is exact.
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
    """All tokens of one request, prompt first, as many as are asked for."""

    def __init__(
        self, request: int, prompt_tokens: int, structured: bool = False, before: tuple[int, ...] = ()
    ) -> None:
        """`structured`: its tokens follow the grammar. `before`: tokens that come before the prompt, of which
        `prompt_tokens` are new.
        """
        self._of = request, prompt_tokens, structured, before
        self.structured = structured
        self.prompt_tokens = len(before) + prompt_tokens
        new = range(len(before), self.prompt_tokens)
        self.tokens = [*before, *(prompt_token(request, position) for position in new)]
        self._sums = [0] * LAYERS  # of each layer's cache, weighted, as far as `_done`
        self._done = 0

    def __reduce__(self) -> tuple[type[Oracle], tuple[int, int, bool, tuple[int, ...]]]:
        """What it is, whatever was worked out so far: so ranks may share it. Who asked before makes no difference."""
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
        """The first so many tokens."""
        return tuple(self.token(position) for position in range(length))

    def drafts(self, position: int, count: int) -> list[int]:
        """What the drafter thinks comes after the token at a position."""
        drafts = [self.token(position)]
        for _ in range(count):
            drafts.append(guessed(drafts[-1]))
        return drafts[1:]

    def mask(self, position: int, count: int) -> tuple[int, ...]:
        """What the grammar permits after the token at a position and after so many drafts; empty if there is none."""
        if not self.structured:
            return ()
        return tuple(permitted(token) for token in (self.token(position), *self.drafts(position, count)))

    def accepted(self, position: int, count: int) -> int:
        """How many of so many drafts after a position are right, up to the first that is not."""
        for number, draft in enumerate(self.drafts(position, count)):
            if draft != self.token(position + 1 + number):
                return number
        return count

    def digest(self, length: int) -> int:
        """One number for the first so many tokens."""
        return sum((position + 1) * token for position, token in enumerate(self.first(length))) % MODULUS
