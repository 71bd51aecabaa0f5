"""The class `Scenario`: one pydantic model for scenario files and for scenarios made in Python.

    scenario_from({"name": "two", "protocol": "mine", "faults": [...]})
    load_scenario("two.yaml")

A `Scenario` object is always valid. The validators refuse unknown keys and names, ranks that the world lacks, and
contradictions, each with its path. A scenario describes *what* happens, not where it runs: it means the same on the
simulation, on gloo and on NCCL.

A program with `Params` has its parameters under `protocol: {params: ...}`.

Sources: the order of sections follows Jepsen (work, nemesis and checker are separate) and Chaos Mesh.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from dpsim.checks.expected import Expected
from dpsim.checks.finding import matches, pattern_problem
from dpsim.contract.words import did_you_mean
from dpsim.scenario.base import KeyPath, Problem, StrictModel, refuse
from dpsim.scenario.errors import path_text
from dpsim.scenario.expect import ClassPattern, Expect, ExpectAny
from dpsim.scenario.faults import Alter, AnyFault, DelaySpec, FaultSpec, Insert, KillSpec
from dpsim.scenario.inserted import some, wrong_insertions
from dpsim.scenario.machine import Limits, TakenPort
from dpsim.scenario.messages import Messages
from dpsim.scenario.parameters import Parameters

MAX_INJECTIONS = 10_000


class Checks(StrictModel):
    """Which findings do not count."""

    switched_off: Annotated[tuple[ClassPattern, ...], Field(max_length=100)] = ()
    """Findings of these classes, e.g. RACE:* or HANG, are counted, but neither reported nor part of the verdict."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        wrong = [(i, pattern_problem(pattern)) for i, pattern in enumerate(self.switched_off)]
        refuse(*(Problem(("switched_off", i), message) for i, message in wrong if message is not None))
        return self


class Scenario(Parameters):
    """A coordination protocol, the planted faults, and the expected outcome."""

    faults: Annotated[tuple[AnyFault, ...], Field(max_length=MAX_INJECTIONS)] = ()
    """What breaks the protocol."""
    delays: Annotated[tuple[DelaySpec, ...], Field(max_length=MAX_INJECTIONS)] = ()
    """What a correct protocol has to tolerate."""
    messages: Messages = ()
    """Messages that mailboxes receive from outside of the program."""
    ports: Annotated[tuple[TakenPort, ...], Field(max_length=1000)] = ()
    """Other programs that listen on ports."""
    expect: Expect = Expect.model_construct()
    checks: Checks = Checks.model_construct()
    """Which findings count."""
    limits: Limits = Limits.model_construct()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        problems = [*self._wrong_ranks(), *self._wrong_groups(), *self._wrong_insertions()]
        problems += [*self._same_op_twice(), *self._same_port_twice()]
        refuse(*problems, *self._expected_but_off(), *self.problems())
        return self

    @property
    def expected(self) -> Expected:
        """The expected outcome of a run. A violation without a class has the class of the variant."""
        return self.expect.expected(self.protocol.caught_as)

    @property
    def expected_of_all(self) -> Expected:
        """The expected outcome of all schedules."""
        return (self.expect.explored or self.expect).expected(self.protocol.caught_as)

    def named(self) -> Iterator[tuple[KeyPath, int | str]]:
        """Yields all ranks and services that the scenario names, each with its path."""
        for i, fault in enumerate(self.faults):
            yield ("faults", i, "rank"), fault.rank
            if isinstance(fault, Alter) and fault.change.root is not None:
                yield ("faults", i, "change", "root"), fault.change.root
        yield from ((("delays", i, "rank"), delay.rank) for i, delay in enumerate(self.delays))
        for i, message in enumerate(self.messages):
            yield ("messages", i, "to"), message.to
            if message.after is not None:
                yield ("messages", i, "after", "rank"), message.after.rank
        yield from self.ranks_named()
        for path, expect in self._expected():
            if expect.culprit is not None:
                yield (*path, "culprit", "rank"), expect.culprit.rank

    def _wrong_ranks(self) -> Iterator[Problem]:
        size = self.size
        has = f"{size} ranks, 0 to {size - 1}" if size > 1 else "one rank, 0"
        yield from (
            Problem(path, f"rank {rank}: the {self.of_ranks} has {has}")
            for path, rank in self.named()
            if isinstance(rank, int) and rank >= size
        )

    def _wrong_groups(self) -> Iterator[Problem]:
        injected: list[tuple[KeyPath, FaultSpec | KillSpec | DelaySpec]] = []
        injected += [(("faults", i), fault) for i, fault in enumerate(self.faults)]
        injected += [(("delays", i), delay) for i, delay in enumerate(self.delays)]
        named = [(path, item, item.at.communicator) for path, item in injected if item.at and item.at.communicator]
        groups = {spec.name: spec.ranks for spec in self.communicators} if named else {}
        for path, item, name in named:
            members = groups.get(name)
            if members is None:
                few = f"; expected one of {', '.join(groups)}" if len(groups) <= 12 else ""
                message = f"no communicator {name!r} in this {self.of_ranks}{few}{did_you_mean(name, groups)}"
                yield Problem((*path, "at", "communicator"), message)
                continue
            root = item.change.root if isinstance(item, Alter) else None
            for key, rank in (("rank",), item.rank), (("change", "root"), root):
                if isinstance(rank, int) and rank not in members and rank < self.size:
                    message = f"rank {rank} is not in the communicator {name}, which has {some(members)}"
                    yield Problem((*path, *key), message)

    def _wrong_insertions(self) -> Iterator[Problem]:
        """Yields a problem for each inserted call that does not fit its communicator."""
        inserted = [(i, fault) for i, fault in enumerate(self.faults) if isinstance(fault, Insert)]
        groups = self.communicators if inserted else ()
        for i, fault in inserted:
            for path, message in wrong_insertions(fault.call, fault.rank, groups):
                yield Problem(("faults", i, *path), message)

    def _same_op_twice(self) -> Iterator[Problem]:
        """Of two faults at one op, or two kills of a rank, only one could happen."""
        first: dict[Any, int] = {}
        for i, fault in enumerate(self.faults):
            if isinstance(fault, KillSpec):
                earlier = first.setdefault(fault.rank, i)
                if earlier != i:
                    message = f"a second kill of rank {fault.rank}, as faults[{earlier}]; expected one a rank"
                    yield Problem(("faults", i), message)
                continue
            earlier = first.setdefault((fault.rank, fault.at.at()), i)
            if earlier != i:
                op = f"{fault.at.at()} of rank {fault.rank}"
                yield Problem(("faults", i), f"a second fault at {op}, as faults[{earlier}]; expected one fault an op")

    def _same_port_twice(self) -> Iterator[Problem]:
        first: dict[tuple[int, int], int] = {}
        for i, taken in enumerate(self.ports):
            earlier = first.setdefault((taken.node, taken.port), i)
            if earlier != i:
                yield Problem(
                    ("ports", i), f"port {taken.port} of node {taken.node} is that of ports[{earlier}] already"
                )

    def _expected_but_off(self) -> Iterator[Problem]:
        for i, pattern in enumerate(self.checks.switched_off):
            for path, expect in self._expected():
                klass = expect.expected(self.protocol.caught_as).klass
                if klass is not None and matches(klass, pattern):
                    message = f"{pattern} switches off the class {klass} that {path_text(path)} waits for"
                    yield Problem(("checks", "switched_off", i), message)

    def _expected(self) -> Iterator[tuple[KeyPath, ExpectAny]]:
        yield ("expect",), self.expect
        if self.expect.explored is not None:
            yield ("expect", "explored"), self.expect.explored
