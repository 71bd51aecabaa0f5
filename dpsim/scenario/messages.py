"""The section `messages`: messages from outside of the program, such as a client's request or an operator's command.

    messages:
      - {to: coordinator, mailbox: inbox, content: [wave, 3]}                       # sent when the coordinator begins
      - {to: 1, mailbox: inbox, content: pause, after: {rank: 0, site: engine.step, ordinal: 2}}

dpsim sends a message from outside when a rank reaches the op that `after` names, before that op. It is delivered some
time later, as any other, and the explorer tries every order. If dpsim sends several messages at ops of one rank, each
mailbox receives them in order. A message from outside and one that the rank sends itself have no order.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from dpsim.contract.ops import MAIN
from dpsim.contract.world import At, Message
from dpsim.scenario.base import Actor, Index, Problem, StrictModel, Word, refuse
from dpsim.scenario.errors import shown


def _content(value: Any) -> Any:
    """Tuples for lists. Refuses None, which a poll of an empty mailbox returns."""
    if value is None:
        refuse(Problem((), "nothing is what a poll gives for an empty mailbox, and no message; expected plain data"))
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    if value is not None and not isinstance(value, bool | int | float | str):
        refuse(Problem((), f"expected numbers, texts, truth values and lists of these, got {shown(value)}"))
    if isinstance(value, float) and not math.isfinite(value):
        refuse(Problem((), f"expected a number that is finite, got {value}"))
    return value


Content = Annotated[
    Any, PlainValidator(_content), WithJsonSchema({"type": ["number", "string", "boolean", "array"], "items": {}})
]


class After(StrictModel):
    """When a message is sent: when a rank reaches an op."""

    rank: Actor
    """The global rank, or the name of a service."""
    site: Word
    """The name of the op in the protocol's source, e.g. dp.agree."""
    ordinal: Index
    """Which visit of the rank to the site, from 0."""
    thread: Word = MAIN
    """The host thread that visits the site."""


class MessageSpec(StrictModel):
    """A message from outside of the program."""

    to: Actor
    """The global rank that receives it, or the name of a service."""
    mailbox: Word
    """The mailbox that receives it."""
    content: Content
    """Numbers, texts, truth values, and lists of these. A program receives a list as a tuple."""
    after: After | None = None
    """The op at which it is sent. If left out: it is sent when its receiver begins."""

    def message(self, to: int, by: int) -> Message:
        """For a backend. `to`, `by`: the numbers of the receiver, and of the actor at whose op it is sent."""
        at = At() if self.after is None else At(self.after.site, self.after.ordinal, thread=self.after.thread)
        return Message(to, self.mailbox, self.content, by, at)

    @property
    def by(self) -> int | str:
        """The rank or service at whose op the message is sent."""
        return self.to if self.after is None else self.after.rank


MAX_MESSAGES = 10_000

Messages = Annotated[tuple[MessageSpec, ...], Field(max_length=MAX_MESSAGES)]
