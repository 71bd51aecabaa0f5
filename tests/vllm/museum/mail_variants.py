"""A protocol whose mistakes depend on the schedule. Some of its variants do not behave as they are registered.

Rank 0 receives a message from each other rank and broadcasts who leads: the sender with the lowest rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol, register_variant, variant


@register_protocol("mail", forms=("sorted", "unsorted"))
class Mail(Program[Any]):
    """Elects a leader: each rank but rank 0 sends a message to rank 0's mailbox, and rank 0 broadcasts the result."""

    def prepare(self, args: Arguments) -> Any:
        return variant(args.variant).make if args.variant else FORMS[args.form]

    async def run(self, rank: Rank, prepared: Any) -> None:
        rank.step = 0
        group = rank.host("dp_cpu")
        told = np.zeros(1, np.int32)
        if rank.rank == 0:
            senders: list[Any] = [await rank.mailbox("lead").get("lead.get") for _ in group.ranks[1:]]
            told[0] = prepared().leader(senders)
        else:
            rank.send(0, "lead", rank.rank, "lead.send")
        leads = int((await group.broadcast(told, 0, site="lead.tell"))[0])
        rank.decide("leader", 1 if rank.rank else leads, "dp_cpu")


class Sorted:
    """Elects the sender with the lowest rank, which is right."""

    def leader(self, senders: Sequence[int]) -> int:
        return min(senders)


class Unsorted(Sorted):
    """Elects the sender of the first message. In the first schedule that any strategy runs, this is the lowest rank."""

    def leader(self, senders: Sequence[int]) -> int:
        return senders[0]


FORMS = {"sorted": Sorted, "unsorted": Unsorted}


@register_variant("MAIL-FIRST", protocol="mail", form="sorted", expected="DISAGREEMENT:LEADER")
class First(Unsorted):
    """The sender of the first message leads."""


@register_variant("MAIL-DOWN", protocol="mail", form="sorted", expected="DISAGREEMENT:LEADER")
class Down(Sorted):
    """Elects a wrong leader only if the messages arrive in descending order of ranks."""

    def leader(self, senders: Sequence[int]) -> int:
        return senders[0] if list(senders) == sorted(senders, reverse=True) else min(senders)


@register_variant("MAIL-FOUR", protocol="mail", form="sorted", expected="DISAGREEMENT:LEADER")
class Four(Sorted):
    """Elects a wrong leader in a world of four ranks; its exhibit has three ranks."""

    def leader(self, senders: Sequence[int]) -> int:
        return senders[-1] if len(senders) == 3 else min(senders)


@register_variant("MAIL-CLASS", protocol="mail", form="sorted", expected="HANG:MAILBOX:NO_MESSAGE")
class OtherClass(Unsorted):
    """Elects a wrong leader, but is registered with a class of findings that no run gives."""


@register_variant("MAIL-TWIN", protocol="mail", form="unsorted", expected="DISAGREEMENT:LEADER")
class BrokenTwin(Unsorted):
    """Its form, and therefore its healthy twin, already elects a wrong leader."""


@register_variant("MAIL-HARM", protocol="mail", form="sorted", expected=None, reason="slow only")
class Harm(Unsorted):
    """Elects a wrong leader, but is registered as harmless."""


@register_variant("MAIL-SLOW", protocol="mail", form="sorted", expected=None, reason="slow only")
class Slow(Sorted):
    """Elects the right leader, and is registered as harmless."""


@register_variant("MAIL-BARE", protocol="mail", form="sorted", expected="HANG")
class Bare(Sorted):
    """Elects the right leader, is registered as a mistake, and has no exhibit."""
