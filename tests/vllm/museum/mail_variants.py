"""A protocol whose mistakes depend on the schedule, and variants that are and are not as they are registered.

Rank 0 waits for a message of every other rank and tells them who leads: the lowest of them.
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
    """Who leads? Asked over a mailbox, told by a broadcast."""

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
    def leader(self, senders: Sequence[int]) -> int:
        return min(senders)


class Unsorted(Sorted):
    """Whose message came first: in the first of all schedules that is the lowest."""

    def leader(self, senders: Sequence[int]) -> int:
        return senders[0]


FORMS = {"sorted": Sorted, "unsorted": Unsorted}


@register_variant("MAIL-FIRST", protocol="mail", form="sorted", expected="DISAGREEMENT:LEADER")
class First(Unsorted):
    """Who comes first leads."""


@register_variant("MAIL-DOWN", protocol="mail", form="sorted", expected="DISAGREEMENT:LEADER")
class Down(Sorted):
    """Wrong only if all came in falling order."""

    def leader(self, senders: Sequence[int]) -> int:
        return senders[0] if list(senders) == sorted(senders, reverse=True) else min(senders)


@register_variant("MAIL-FOUR", protocol="mail", form="sorted", expected="DISAGREEMENT:LEADER")
class Four(Sorted):
    """Wrong with four ranks; its exhibit has three."""

    def leader(self, senders: Sequence[int]) -> int:
        return senders[-1] if len(senders) == 3 else min(senders)


@register_variant("MAIL-CLASS", protocol="mail", form="sorted", expected="HANG:MAILBOX:NO_MESSAGE")
class OtherClass(Unsorted):
    """Registered with a class that it does not have."""


@register_variant("MAIL-TWIN", protocol="mail", form="unsorted", expected="DISAGREEMENT:LEADER")
class BrokenTwin(Unsorted):
    """Made from a form that is wrong itself."""


@register_variant("MAIL-HARM", protocol="mail", form="sorted", expected=None, reason="slow only")
class Harm(Unsorted):
    """Registered as harmless, and it is not."""


@register_variant("MAIL-SLOW", protocol="mail", form="sorted", expected=None, reason="slow only")
class Slow(Sorted):
    """Harmless."""


@register_variant("MAIL-BARE", protocol="mail", form="sorted", expected="HANG")
class Bare(Sorted):
    """Has no exhibit."""
