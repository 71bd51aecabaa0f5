"""Messages that come from outside of the program: clients' requests, an operator's order, a stray answer.

    messages:
      - {to: coordinator, mailbox: inbox, content: [wave, 3]}                       # sent when the coordinator begins
      - {to: 1, mailbox: inbox, content: pause, after: {rank: 0, site: engine.step, ordinal: 2}}

A message is sent when a rank reaches an op, before that op. It is delivered some time later, like any other: an
exploration tries every order. Messages from outside that are sent at ops of one rank reach each mailbox in order. They
are in no order with what the rank sends itself.
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
    """As a program gets it: lists are tuples."""
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
    """Where a message is sent: when a rank reaches an op."""

    rank: Actor
    """The global rank, or the name of a service."""
    site: Word
    """The name of the op in the protocol's source, e.g. dp.agree."""
    ordinal: Index
    """Which visit of the rank to the site, from 0."""
    thread: Word = MAIN
    """The host thread that visits the site."""


class MessageSpec(StrictModel):
    """A message from outside."""

    to: Actor
    """The global rank it goes to, or the name of a service."""
    mailbox: Word
    """The mailbox there."""
    content: Content
    """Numbers, texts, truth values, lists of these. A program gets a list as a tuple."""
    after: After | None = None
    """Where it is sent. Left out: where its receiver begins."""

    def message(self, to: int, by: int) -> Message:
        """As a backend receives it; `to`, `by`: the numbers of those named."""
        at = At() if self.after is None else At(self.after.site, self.after.ordinal, thread=self.after.thread)
        return Message(to, self.mailbox, self.content, by, at)

    @property
    def by(self) -> int | str:
        """Where it is sent."""
        return self.to if self.after is None else self.after.rank


MAX_MESSAGES = 10_000

Messages = Annotated[tuple[MessageSpec, ...], Field(max_length=MAX_MESSAGES)]
