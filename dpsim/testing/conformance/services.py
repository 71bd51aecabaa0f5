"""The program `conformance_services`: services are actors that are no ranks, and a program declares them.

    ranks   --question-->  desk  --all of them-->  clerk        the clerk stands in an idle get at the end
    ranks   <--answer----  desk  <--their sum----  clerk        and counts as finished

The first rank watches both services. Only the desk ends, so it receives only a notice from the desk. Services have
mailboxes and stores, but no communicators and no device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.contract.interface import Rank
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol
from dpsim.testing.conformance.ground import expect, refused
from dpsim.testing.conformance.stores import ANY_PORT, JOINED

SERVICES = "desk", "clerk"


@register_protocol("conformance_services")
class ConformanceServices(Program[int]):
    """Ranks and services exchange messages with predicted results. Argument: `rounds`, by default 3.

    Raises AssertionError if the backend does not follow the contract.
    """

    def prepare(self, args: Arguments | Mapping[str, Any]) -> int:
        return 3 if isinstance(args, Arguments) else int(args.get("rounds", 3))

    def services(self, prepared: int) -> tuple[str, ...]:
        return SERVICES

    def steps(self, prepared: int) -> int:
        return prepared

    async def run(self, rank: Rank, prepared: int) -> None:
        group, desk, clerk = rank.host("dp_cpu"), rank.service("desk"), rank.service("clerk")
        expect(
            "the name of a rank",
            rank.name,
            "",
            ("only a service has a name, and the name of a rank is empty. A wrong backend names ranks"),
        )
        expect(
            "the difference between the numbers of two services",
            clerk - desk,
            1,
            (
                "services have consecutive numbers, in the order in which the program lists them. A wrong "
                "backend uses another order"
            ),
        )
        expect(
            "whether the number of a service is above all ranks",
            desk > max(group.ranks),
            True,
            (
                "the numbers of services begin after those of the ranks. A wrong backend gives a service "
                "the number of a rank"
            ),
        )
        refused(KeyError, "a service that the program does not list", lambda: rank.service("unlisted"))
        if group.index == 0:
            rank.send(desk, "ranks", group.ranks, "conformance.ranks")
            for service in (desk, clerk):
                rank.watch(service, "ends", "conformance.watch")
        refused(ValueError, "a rank that watches itself", lambda: rank.watch(rank.rank, "ends", "refused"))
        for rank.step in range(prepared):
            rank.send(desk, f"question.{rank.rank}", rank.rank + rank.step, "conformance.question")
            total = sum(other + rank.step for other in group.ranks)
            law = (
                "services send and receive messages as ranks do. A wrong backend loses a message, or "
                "delivers it to another actor"
            )
            expect("an answer", await rank.mailbox("answers").get("conformance.answer"), total, law)
            where: Any = await rank.mailbox("store").get("conformance.where")
            store = await rank.join_store(where[0], where[1], "conformance.join")
            assert store is not None, "a join: expected a store, got None. " + JOINED
            expect(
                "the key clerk",
                await store.get("clerk", "conformance.get"),
                rank.step,
                ("each rank and service reads what another one set in the store. A wrong backend keeps several stores"),
            )
            store.set(f"read.{rank.rank}", True, "conformance.set")
            store.close("conformance.close")
        if group.index == 0:
            law = (
                "a rank that watches a service receives a notice of its end, also if it watches after "
                "that end. A wrong backend sends no notice, or one too early"
            )
            expect("a notice", await rank.mailbox("ends").get("conformance.gone"), ("gone", desk), law)
            rank.watch(desk, "ends", "conformance.watch")
            expect("a notice", await rank.mailbox("ends").get("conformance.gone"), ("gone", desk), law)

    async def serve(self, rank: Rank, prepared: int) -> None:
        expect(
            "the number of a service",
            rank.rank,
            rank.service(rank.name),
            (
                "`rank.rank` of a service is the number that `rank.service` returns, and messages to this "
                "number reach it. A wrong backend uses two numbers"
            ),
        )
        refused(RuntimeError, "a stream of a service", lambda: rank.stream("main"))
        refused(KeyError, "a communicator of a service", lambda: rank.host("dp_cpu"))
        await (self._desk if rank.name == "desk" else self._clerk)(rank, prepared)

    async def _desk(self, rank: Rank, rounds: int) -> None:
        ranks: Any = await rank.mailbox("ranks").get("conformance.ranks")
        for rank.step in range(rounds):
            questions = [await rank.mailbox(f"question.{one}").get("conformance.question") for one in ranks]
            rank.send(rank.service("clerk"), "lists", tuple(questions), "conformance.pass")
            total = await rank.mailbox("sums").get("conformance.sum")
            store = await rank.open_store(0, "conformance.open")
            assert store is not None, "port 0: expected a store, got None. " + ANY_PORT
            rank.send(rank.service("clerk"), "stores", (store.node, store.port, rank.step), "conformance.tell")
            for one in ranks:
                rank.send(one, "answers", total, "conformance.answer")
                rank.send(one, "store", (store.node, store.port), "conformance.where")
            for one in ranks:
                await store.get(f"read.{one}", "conformance.get")
            store.close("conformance.close")

    async def _clerk(self, rank: Rank, rounds: int) -> None:
        while True:
            numbers: Any = await rank.mailbox("lists").get("conformance.list", idle=True)
            rank.send(rank.service("desk"), "sums", sum(numbers), "conformance.sum")
            place: Any = await rank.mailbox("stores").get("conformance.place")
            node, port, step = place
            store = await rank.join_store(node, port, "conformance.join")
            assert store is not None
            store.set("clerk", step, "conformance.set")
            store.close("conformance.close")
