"""How a rank reads a mailbox: a poll, a get without a time-out, an idle get, or a get with a time-out.

outcome = taking(rank, "inbox", "get", None, 0)             # the result of `RealRank._take`
"""

from __future__ import annotations

from collections.abc import Generator
from queue import Empty
from typing import Any, Protocol

from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import Frozen
from real.mail import Mail
from real.waiting import Patience


class Taker(Protocol):
    """The methods of a rank that this module uses."""

    journal: Journal
    mail: Mail
    patience: Patience


def taking(rank: Taker, mailbox: str, how: str, timeout_ns: int | None, delay_ns: int) -> Outcome:
    """Returns an outcome whose value is the next message. It is None for a poll that finds none, and for a get whose
    time-out passes. A call with a gate gets the message of the gate. A rank that waits at a gate is not dismissed,
    because the message will arrive.
    """
    gate = rank.journal.gate()

    def outcome() -> Generator[Any, Any, Frozen]:
        patience = rank.patience
        patience.sleep(delay_ns)
        if gate is not None and gate.message is None:
            patience.check()
            patience.sleep(timeout_ns or 0)
            return None
        if gate is not None and gate.message is not None:
            return patience.answer(rank.mail.gated(mailbox).only(gate.message), None)
        box = rank.mail.box(mailbox)
        if how == "poll":
            patience.check()  # a host that only polls must get the error here
            try:
                return box.get_nowait()
            except Empty:
                return None
        if timeout_ns is not None:
            return patience.answer(box, timeout_ns)
        return patience.message(box, idle=how == "idle")
        yield  # a generator, as the contract requires, that never suspends

    return outcome
