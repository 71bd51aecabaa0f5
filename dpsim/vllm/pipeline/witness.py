"""A witness: it compares the inputs and outputs of a stage with the expected ones, from the oracles.

The witness compares all inputs of a step, because the last token of a request does not show every error.

For example, request B takes over a row of the request table from request A, and a late token of A is stored for B. The
last token of B is soon right again. But the length, the history and the number of computed tokens of B stay wrong.
(Specification 6.11; the known mistake M-PP-1 does this.)

The witness compares outputs only at the end of the run, because a wrong input is nearer to the cause.

For each kind of difference, the witness raises one exception class.

    WrongCount      the position of a token (the computed count)      WrongLength   the length of its request
    WrongToken      the token                                         WrongHistory  a token before the last
    WrongState      the number of final tokens                        WrongOutput   a sampled token
    LostTokens      a stage never stored tokens that the last stage sent and a request needs
    WrongEnd        a client receives more or fewer tokens than its request has
    WrongAdmission  a request gets a slot in a step in which another request loses its slot
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dpsim.vllm.model.compared import step_text
from dpsim.vllm.model.oracle import Oracle
from dpsim.vllm.pipeline.batches import Batch, Row


class Wrong(AssertionError):
    """An input or output of a stage differs from the expected one."""


class WrongCount(Wrong):
    """The number of computed tokens is wrong, so the stage writes its cache at wrong positions."""


class WrongLength(Wrong):
    """The number of the request's tokens is wrong."""


class WrongToken(Wrong):
    """The input of the model is a wrong token."""


class WrongHistory(Wrong):
    """A token before the last is wrong."""


class WrongState(Wrong):
    """The number of final tokens is wrong, so a model with recurrent state continues from a wrong state."""


class WrongOutput(Wrong):
    """The model samples a wrong token."""


class LostTokens(Wrong):
    """At the end of the run, the queue still contains tokens that a request needs."""


class WrongEnd(Wrong):
    """A client receives more or fewer tokens than its request has, up to a stop token."""


class WrongAdmission(Wrong):
    """A request gets a slot in a step in which another request loses its slot."""


def compare(oracle: Oracle, row: Row, step: str, inputs: Sequence[Sequence[int]], delivered: str | None) -> None:
    """Compare a row of a step's inputs, and raise the first difference. `step`: in words.

    `inputs`: by token, id, position, length of the request, digest, settled count. `delivered`: the op that last wrote
    tokens to the slot.
    """
    position, count = row.position, row.scheduled
    length = row.prefill if row.prefilling else position + 1
    if row.prefilling:
        tokens = [oracle.token(position + place) for place in range(count)]
    else:
        tokens = [oracle.token(position), *oracle.drafts(position, row.drafts)]
    expected: tuple[tuple[int, type[Wrong], str, list[int]], ...] = (
        (1, WrongCount, "position", [position + place for place in range(count)]),
        (2, WrongLength, "length", [length] * count),
        (0, WrongToken, "token", tokens),
        (3, WrongHistory, "history", [oracle.digest(length)] * count),
        (4, WrongState, "settled", [position] * count),
    )
    for line, wrong, what, right in expected:
        for place in range(count):
            if inputs[line][place] != right[place]:
                raise wrong(
                    f"inputs of {step}, request {row.request}, place {place} of {count}: "
                    f"{what} {inputs[line][place]}, the model says {right[place]}; "
                    f"last delivered to its slot: {delivered or 'nothing'}"
                )


class Witness:
    """The witness of one stage."""

    def __init__(self, oracles: Sequence[Oracle], ends: Mapping[int, tuple[int, bool]]) -> None:
        """`ends`: for each request, the tokens that its client receives, and whether fewer are correct, too."""
        self.oracles, self.ends = oracles, ends
        self._sampled: dict[int, list[tuple[int, int, int]]] = {}  # request -> (step, position, token)
        self._client_tokens: Counter[int] = Counter()

    def scheduled(self, batch: Batch) -> None:
        """WrongAdmission: it preempts one and admits another. vLLM never does: the new one would take the room."""
        if batch.preempted and batch.admitted:
            raise WrongAdmission(
                f"batch {batch.number} preempts the requests {list(batch.preempted)} and admits "
                f"{[one.request for one in batch.admitted]}; expected one or the other"
            )

    def inputs(
        self, step: int, rows: Sequence[Row], inputs: Sequence[Sequence[int]], delivered: Sequence[str | None], now: int
    ) -> None:
        """Compare row by row. `inputs`: five lists (`compare`). `now`: the step of the rank."""
        start, said = 0, step_text(step, now)
        for row, by in zip(rows, delivered, strict=True):
            end = start + row.scheduled
            compare(self.oracles[row.request], row, said, [line[start:end] for line in inputs], by)
            start = end

    def sampled(
        self,
        step: int,
        rows: Sequence[Row],
        tokens: Sequence[Sequence[int]],
        counts: Sequence[int],
        client_tokens: Sequence[int],
    ) -> None:
        """Store the tokens of a step, and count those that clients receive. `end` compares them."""
        for row, new, count, received in zip(rows, tokens, counts, client_tokens, strict=True):
            self._client_tokens[row.request] += received
            # The scheduler makes no mask for a request that has ended, so its tokens are arbitrary.
            if row.samples and (received or not self.oracles[row.request].structured):
                first = row.position + (row.scheduled if row.prefilling else 1)
                sampled_so_far = self._sampled.setdefault(row.request, [])
                sampled_so_far += [(step, first + place, token) for place, token in enumerate(new[:count])]

    def end(self, now: int) -> None:
        """WrongOutput: the first wrong token. WrongEnd: too many or too few tokens. `now`: the rank's step."""
        for request, sampled_so_far in sorted(self._sampled.items()):
            for step, position, token in sampled_so_far:
                right = self.oracles[request].token(position)
                if token != right:
                    raise WrongOutput(
                        f"request {request} got token {token} at position {position} from {step_text(step, now)}, "
                        f"the model says {right}"
                    )
        for request, (length, fewer) in sorted(self.ends.items()):
            client_tokens = self._client_tokens[request]
            if client_tokens > length or (client_tokens < length and not fewer):
                raise WrongEnd(
                    f"the client of request {request} received {client_tokens} tokens, the request has {length}"
                )
