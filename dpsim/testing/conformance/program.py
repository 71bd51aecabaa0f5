"""Every call of the contract at least once, with results that a formula predicts.

Not a protocol of vLLM: the program by which a backend shows that it does what `dpsim.interface` says. Each rank knows
what every other rank sends, so it can compute every result by itself and says at once which call gave something else,
and which sentence of the contract that breaks. All numbers are exact in their type: "almost equal" does not occur.

    protocol: {name: conformance}

It asks for the communicators that every world has, "dp_cpu" on the host and "dp" over the same ranks and "ep" on the
device, and runs on groups of any size. Its parts:

    basics.py        names, kernels, reads, the host running ahead, what is refused
    collectives.py   all collectives, on the host and on the device: types, reductions, roots, size vectors
    streams.py       side streams, events, views, record_stream
    transfers.py     send and receive, eager and rendezvous, lone and coalesced
    mail.py          mailboxes, polls, sleep
    ground.py        what they have in common: data, expectations, kernels

What no backend shows: that freed memory is reused at all (gloo never does; only that it is not reused too early is
held), how long anything takes, and the order of messages from two senders.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from dpsim.interface import Rank
from dpsim.program import Program
from dpsim.registry import register_protocol
from dpsim.testing.conformance import mail
from dpsim.testing.conformance.basics import basics
from dpsim.testing.conformance.collectives import collectives
from dpsim.testing.conformance.ground import Round
from dpsim.testing.conformance.streams import streams
from dpsim.testing.conformance.transfers import transfers

Part: TypeAlias = Callable[[Round], Awaitable[None]]

PARTS: dict[str, Part] = {
    "basics": basics,
    "collectives": collectives,
    "streams": streams,
    "transfers": transfers,
    "mail": mail.mail,
    "polling": mail.polling,
    "sleep": mail.sleep,
}
"""What a round is made of, in order."""


class Prepared(NamedTuple):
    rounds: int
    parts: tuple[str, ...]


@register_protocol("conformance")
class Conformance(Program):
    """Every call of the contract at least once, with results that a formula predicts.

    Arguments: `rounds` (default 3; a round is a step) and `parts` (default: all). Raises AssertionError where the
    backend breaks the contract. With the part "mail" all ranks but the first end in an idle get.
    """

    def prepare(self, args: Mapping[str, Any]) -> Prepared:
        return Prepared(int(args.get("rounds", 3)), tuple(args.get("parts", PARTS)))

    def steps(self, prepared: Prepared) -> int:
        return prepared.rounds

    async def run(self, rank: Rank, prepared: Prepared) -> None:
        for step in range(prepared.rounds):
            rank.step = step
            for part in prepared.parts:
                await PARTS[part](Round(rank, step))
        if "mail" in prepared.parts:
            await mail.serve(rank)
