"""Small protocols with parameters, for tests that need any protocol or any scenario.

sized("t_fails", ranks=3)                      # a scenario: parameters, and then sections
agreed({"tokens": [5, 0, 3]}, faults=[SKIP])

t_agree     ranks agree on a number of tokens, on hosts or devices, and add up hidden states, as an engine does
t_served    a coordinator, a front end and an engine for each rank, on one or more nodes, exchange a few messages
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain
from dpsim.contract.program import Arguments, Program, Unsuitable
from dpsim.contract.registry import register_protocol, register_variant
from dpsim.scenario import Scenario, scenario_from
from tests.programs import copy, set_to


class Sized(BaseModel):
    """Parameters with only the number of ranks."""

    ranks: int = Field(default=2, ge=1)


class SizedProgram(Program[Any]):
    """The base class of a test protocol whose only parameter is the number of ranks."""

    Params = Sized

    @staticmethod
    def ranks(params: Any) -> int:
        return int(params.ranks)


def sized(protocol: str, ranks: int = 2, **sections: Any) -> Scenario:
    """Returns a scenario of a protocol with the parameters `Sized`."""
    chosen = {"name": protocol, "params": {"ranks": ranks}}
    return scenario_from({"name": "sized", "protocol": chosen, **sections})


# ---- ranks that agree


class Batches(BaseModel):
    """The tokens of each rank in each step: `tokens` are dealt to the ranks, step by step, and repeat."""

    ranks: int = Field(default=2, ge=2, le=4096)
    steps: int = Field(default=1, ge=1, le=100)
    tokens: list[Annotated[int, Field(ge=0)]] = Field(default=[1], min_length=1, max_length=64)
    on_device: bool = False
    experts: int = Field(default=1, ge=1, le=4)

    def of(self, rank: int, step: int) -> int:
        return self.tokens[(step * self.ranks + rank) % len(self.tokens)]


@register_protocol("t_agree")
class Agree(SizedProgram):
    """In each step all ranks agree on the largest number of tokens. A rank without tokens takes part."""

    Params = Batches  # type: ignore[assignment]

    def groups(self, prepared: Arguments[Batches]) -> list[tuple[str, Domain, list[tuple[int, ...]]]]:
        everyone = [tuple(range(prepared.params.ranks))]
        return [("dp_cpu", "host", everyone), ("dp", "device", everyone), ("ep", "device", everyone)]

    def steps(self, prepared: Arguments[Batches]) -> int:
        return prepared.params.steps

    async def run(self, rank: Rank, prepared: Arguments[Batches]) -> None:
        batches = prepared.params
        for rank.step in range(batches.steps):
            own = batches.of(rank.rank, rank.step)
            if self.leaves_out(own):
                continue
            table = await self.agree(rank, batches.on_device, own)
            rank.decide("plan", tuple(int(one) for one in table), "dp_cpu")
            rank.decide("mode", self.mode(own, int(table.max())), "dp_cpu")
            for _ in range(batches.experts):
                await self.experts(rank, max(1, int(table.max())))

    async def agree(self, rank: Rank, on_device: bool, own: int) -> Any:
        """Returns the tokens of each rank."""
        table = np.zeros(rank.device("dp").size, np.int32)
        table[rank.rank] = own
        if not on_device:
            return await rank.host("dp_cpu").all_reduce(table, site="dp.agree")
        main = rank.stream("main")
        buffer = main.alloc(len(table), "int32", "dp.table")
        main.launch("dp.fill", fill, writes=[buffer], args=(tuple(map(int, table)),))
        rank.device("dp").all_reduce(buffer, main, site="dp.agree")
        agreed = await buffer.read("dp.read")
        buffer.free()
        return agreed

    async def experts(self, rank: Rank, tokens: int) -> None:
        """Sums the rows of all ranks on the device, so that each rank gets the sum."""
        main = rank.stream("main")
        hidden = main.alloc(tokens, "int32", "hidden")
        main.launch("attention", set_to, writes=[hidden], args=(rank.rank,))
        buffer = main.alloc(tokens, "int32", "experts.buffer")
        main.launch("experts.fill", copy, reads=[hidden], writes=[buffer])
        rank.decide("experts", tokens, "ep")
        rank.device("ep").all_reduce(buffer, main, site="experts.combine")
        await buffer.read("experts.read")
        buffer.free()
        hidden.free()

    def leaves_out(self, own: int) -> bool:
        """Returns whether a rank with this number of tokens skips the step."""
        return False

    def mode(self, own: int, most: int) -> str:
        """Returns the mode in which a rank runs the step."""
        return "FULL" if most <= 8 else "NONE"


@register_variant("T-SKIPS", protocol="t_agree", expected="HANG:COLLECTIVE:MISSING_RANK")
class Skips(Agree):
    """The faulty variant: a rank without tokens skips the step."""

    def leaves_out(self, own: int) -> bool:
        return own == 0


@register_variant("T-STRICT", protocol="t_agree", expected="CRASH:VALUEERROR")
class Strict(Agree):
    """The faulty variant: a rank without tokens raises."""

    def mode(self, own: int, most: int) -> str:
        if own == 0:
            raise ValueError(f"no batch is padded to {most} agreed tokens")
        return super().mode(own, most)


def fill(target: Any, values: tuple[int, ...]) -> None:
    """A kernel that writes the values into a buffer."""
    for at, value in enumerate(values):
        target[at] = value


def agreed(params: dict[str, Any] | None = None, variant: str | None = None, **sections: Any) -> Scenario:
    """Returns a scenario of `t_agree`."""
    chosen = {"name": "t_agree", "params": params or {}, "variant": variant}
    return scenario_from({"name": "agreed", "protocol": chosen, **sections})


# ---- services


class Served(BaseModel):
    """The numbers of ranks and nodes."""

    ranks: int = Field(default=2, ge=1, le=64)
    nodes: int = Field(default=1, ge=1, le=8)


@register_protocol("t_served")
class Service(SizedProgram):
    """Each engine reports to the front end that it is ready, and the front end calls it twice. Each rank reports once
    to its engine.
    """

    Params = Served  # type: ignore[assignment]

    def prepare(self, args: Arguments[Served]) -> Served:
        if args.params.ranks % args.params.nodes:
            raise Unsuitable(f"nodes: {args.params.nodes} nodes for {args.params.ranks} ranks; expected whole nodes")
        return args.params

    def services(self, prepared: Served) -> tuple[str, ...]:
        return ("frontend", "coordinator", *(f"engine.{rank}" for rank in range(prepared.ranks)))

    def nodes(self, prepared: Served) -> tuple[int, ...]:
        nodes = [rank * prepared.nodes // prepared.ranks for rank in range(prepared.ranks)]
        return (*nodes, 0, 0, *nodes)

    async def run(self, rank: Rank, prepared: Served) -> None:
        rank.step = 0
        rank.send(rank.service(f"engine.{rank.rank}"), "reports", rank.rank, "say.report")

    async def serve(self, rank: Rank, prepared: Served) -> None:
        rank.step = 0
        engines = [rank.service(f"engine.{number}") for number in range(prepared.ranks)]
        if rank.name == "frontend":
            await self.calls(rank, engines)
        elif rank.name == "coordinator":
            for _ in engines:
                await rank.mailbox("ready").get("coordinator.hear")
        else:
            await self.answers(rank)

    async def calls(self, rank: Rank, engines: list[int]) -> None:
        for _ in engines:
            await rank.mailbox("hello").get("hear.hello")
        for turn in range(2):
            for engine in engines:
                rank.send(engine, "calls", turn, "call.engine")
            for _ in engines:
                await rank.mailbox("answers").get("hear.answer")

    async def answers(self, rank: Rank) -> None:
        front = rank.service("frontend")
        await rank.mailbox("reports").get("hear.report")
        rank.send(front, "hello", rank.name, "say.hello")
        rank.send(rank.service("coordinator"), "ready", rank.name, "say.ready")
        for _ in range(2):
            turn = await rank.mailbox("calls").get("hear.call")
            rank.send(front, "answers", turn, "say.answer")


def served(ranks: int = 2, nodes: int = 1, **sections: Any) -> Scenario:
    """Returns a scenario of `t_served`."""
    chosen = {"name": "t_served", "params": {"ranks": ranks, "nodes": nodes}}
    return scenario_from({"name": "made", "protocol": chosen, **sections})
