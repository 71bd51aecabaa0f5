"""The program `conformance`: in each round, it checks all parts of the contract except host threads.

`conformance_threads` also checks host threads. It is a separate program because the simulation can stop a program with
threads before every call, which costs more.

    protocol: {name: conformance}

It uses the communicators that every world has: "dp_cpu" on the host, and "dp" and "ep" with the same ranks on the
device. It runs on groups of any size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.testing.conformance import mail
from dpsim.testing.conformance.any_source import any_source
from dpsim.testing.conformance.basics import basics
from dpsim.testing.conformance.collectives import collectives
from dpsim.testing.conformance.dtypes import dtypes
from dpsim.testing.conformance.events import events, queries
from dpsim.testing.conformance.gates import GatesConformance
from dpsim.testing.conformance.graphs import graphs
from dpsim.testing.conformance.ground import Round
from dpsim.testing.conformance.lazy import lazy
from dpsim.testing.conformance.looks import looks
from dpsim.testing.conformance.made_groups import made_groups
from dpsim.testing.conformance.stores import changes, stores
from dpsim.testing.conformance.stream_flags import stream_flags
from dpsim.testing.conformance.streams import streams
from dpsim.testing.conformance.threads import threads
from dpsim.testing.conformance.transfers import transfers

PARTS: dict[str, Callable[[Round], Awaitable[None]]] = {
    "basics": basics,
    "collectives": collectives,
    "dtypes": dtypes,
    "streams": streams,
    "events": events,
    "queries": queries,
    "stream_flags": stream_flags,
    "transfers": transfers,
    "any_source": any_source,
    "looks": looks,
    "made_groups": made_groups,
    "graphs": graphs,
    "mail": mail.mail,
    "polling": mail.polling,
    "sleep": mail.sleep,
    "stores": stores,
    "changes": changes,
}
"""The parts of a round, in order."""

THREADED: dict[str, Callable[[Round], Awaitable[None]]] = {"threads": threads}
"""The parts of the program with threads. It may also run all other parts."""


class Selection(NamedTuple):
    """What a run executes: the number of rounds, and their parts."""

    rounds: int
    parts: tuple[str, ...]


@register_protocol("conformance")
class Conformance(Program[Selection]):
    """Makes every call of the contract at least once, and predicts each result.

    Arguments: `rounds` (default 3; a round is a step) and `parts` (default: all). A scenario cannot set them. With the
    part "mail", all ranks but the first end in an idle get. Raises AssertionError if the backend does not follow the
    contract.
    """

    made_of: Mapping[str, Callable[[Round], Awaitable[None]]] = PARTS

    def prepare(self, args: Arguments | Mapping[str, Any]) -> Selection:
        given = {} if isinstance(args, Arguments) else args
        return Selection(int(given.get("rounds", 3)), tuple(given.get("parts", self.made_of)))

    def steps(self, prepared: Selection) -> int:
        return prepared.rounds

    async def run(self, rank: Rank, prepared: Selection) -> None:
        for step in range(prepared.rounds):
            rank.step = step
            for part in prepared.parts:
                await self.made_of[part](Round(rank, step))
        if "mail" in prepared.parts:
            await mail.serve(rank)


@register_protocol("conformance_lazy")
class LazyConformance(Conformance):
    """For a world whose communicators are created at their first use, which is in the first round."""

    made_of = MappingProxyType({"lazy": lazy})


@register_protocol("conformance_threads")
class ThreadedConformance(Conformance):
    """Runs the same parts, and host threads, in a program that declares threads."""

    threaded = True
    made_of = PARTS | THREADED


register_protocol("conformance_gates")(GatesConformance)
