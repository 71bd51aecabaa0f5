"""The scenario: one pydantic model, of which YAML is the saved form and Python the builder.

    Scenario(name="two", topology=Topology(data_parallel_size=2), workload=Workload(requests=(...)))
    scenario_from({"name": "two", "topology": {"data_parallel_size": 2}, "workload": {"requests": [...]}})
    load_scenario("two.yaml")

A `Scenario` that exists is valid: unknown keys, unknown names, ranks that the topology does not have and
contradictions were refused, each with its path. A scenario says *what* happens, never how it is run: the same one
means the same on the simulation, on gloo and on NCCL.

Sources: vLLM's parameter names (`dpsim.vllm.config`); the order of sections follows Jepsen (workload and nemesis apart,
checker separate) and Chaos Mesh. A protocol is named, never imported (`dpsim.contract.registry`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from dpsim.checks.finding import matches, pattern_problem
from dpsim.contract import registry
from dpsim.contract.words import did_you_mean
from dpsim.scenario.base import Flag, KeyPath, Problem, RankKey, StrictModel, Word, refuse
from dpsim.scenario.communicators import communicators
from dpsim.scenario.errors import path_text
from dpsim.scenario.expect import ClassPattern, Expect, ExpectAny
from dpsim.scenario.faults import Alter, AnyFault, DelaySpec, FaultSpec, KillSpec
from dpsim.scenario.machine import Limits, TakenPort
from dpsim.scenario.messages import Messages
from dpsim.scenario.workload.model import Workload
from dpsim.vllm.config import MAX_RANKS, Broken, EngineConfig, PartialConfig, Topology, broken_rules

MAX_INJECTIONS = 10_000


class ProtocolChoice(StrictModel):
    """Which protocol, in which form, with what changed. A bare string is short for the name alone."""

    name: Word = "dp_batch"
    """A registered protocol."""
    form: Word | None = None
    """A published form of it. Left out: the variant's, else the protocol's default."""
    variant: Word | None = None
    """A mutant or historical bug, by its registered name. Left out: healthy."""
    pieces: dict[Word, Word] = Field(default_factory=dict, max_length=100)
    """Pieces of the form that are to be others, each by the name of another form of it."""
    allow_refused: Flag = False
    """Whether a mix of pieces and settings is run that the engine refuses, to see what breaks."""

    @model_validator(mode="after")
    def _registered(self) -> Self:
        try:
            entry = registry.protocol(self.name)
        except registry.UnknownName as error:
            return self._refuse("name", str(error))
        if self.form is not None and self.form not in entry.forms:
            known = ", ".join(entry.forms)
            hint = did_you_mean(self.form, entry.forms)
            self._refuse("form", f"{self.name} has no form {self.form!r}; expected one of {known}{hint}")
        if self.variant is not None:
            self._check_variant(self.variant, entry.forms)
        self._check_pieces(entry.program.pieces)
        return self

    def _check_pieces(self, known: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse a piece that there is none of, or a form of one."""
        if not known and (self.pieces or self.allow_refused):
            key = "pieces" if self.pieces else "allow_refused"
            self._refuse(key, f"the forms of {self.name} have no pieces to swap; remove it")
        for piece, form in self.pieces.items():
            if piece not in known:
                message = f"no piece {piece!r} in {self.name}; expected one of {', '.join(known)}"
                refuse(Problem(("pieces",), message + did_you_mean(piece, known)))
            elif form not in known[piece]:
                message = f"{piece} has no form {form!r}; expected one of {', '.join(known[piece])}"
                refuse(Problem(("pieces", piece), message + did_you_mean(form, known[piece])))

    def _check_variant(self, name: str, forms: tuple[str, ...]) -> None:
        try:
            variant = registry.variant(name)
        except registry.UnknownName as error:
            self._refuse("variant", str(error))
            return
        if variant.protocol != self.name:
            self._refuse("variant", f"{name} is a variant of the protocol {variant.protocol}, not of {self.name}")
        elif variant.form not in forms:
            known, hint = ", ".join(forms), did_you_mean(variant.form, forms)
            message = f"{name} is a variant of the form {variant.form!r}, which {self.name} does not have"
            self._refuse("variant", f"{message}; register it with one of {known}{hint}")
        if self.form not in (None, variant.form):
            message = f"{name} is a variant of the form {variant.form!r}, not of {self.form!r}; leave form out"
            self._refuse("form", message)

    def _refuse(self, key: str, message: str) -> Self:
        refuse(Problem((key,), message))
        return self

    @property
    def resolved_form(self) -> str:
        """The form that runs."""
        if self.form is not None:
            return self.form
        return registry.variant(self.variant).form if self.variant else registry.protocol(self.name).forms[0]


def _name_alone(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class Checks(StrictModel):
    """What is not to be found."""

    switched_off: Annotated[tuple[ClassPattern, ...], Field(max_length=100)] = ()
    """Findings of these classes, e.g. RACE:* or HANG, are counted, but neither reported nor part of the verdict."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        wrong = [(i, pattern_problem(pattern)) for i, pattern in enumerate(self.switched_off)]
        refuse(*(Problem(("switched_off", i), message) for i, message in wrong if message is not None))
        return self


class Scenario(StrictModel):
    """A coordination protocol, the machine it runs on, its work, what goes wrong, and what must come out."""

    name: Annotated[str, Field(strict=True, min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_./-]+$")]
    """For reports. Letters, digits, and any of . _ - /"""
    description: Annotated[str, Field(strict=True, max_length=10_000)] = ""
    protocol: Annotated[ProtocolChoice, BeforeValidator(_name_alone)] = ProtocolChoice()
    topology: Topology = Topology()
    """How many ranks, in vLLM's names."""
    config: EngineConfig = EngineConfig()
    """The engine's configuration, in vLLM's names."""
    config_by_rank: dict[RankKey, PartialConfig] = Field(default_factory=dict, max_length=MAX_RANKS)
    """Settings of single ranks, laid over `config`: a node that was started with another flag."""
    workload: Workload
    faults: Annotated[tuple[AnyFault, ...], Field(max_length=MAX_INJECTIONS)] = ()
    """What breaks the protocol."""
    delays: Annotated[tuple[DelaySpec, ...], Field(max_length=MAX_INJECTIONS)] = ()
    """What a correct protocol has to tolerate."""
    messages: Messages = ()
    """What comes to mailboxes from outside of the program."""
    ports: Annotated[tuple[TakenPort, ...], Field(max_length=1000)] = ()
    """Other programs that listen on ports."""
    expect: Expect = Expect()
    checks: Checks = Checks()
    """Which findings count."""
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        problems = [*self._wrong_ranks(), *self._wrong_groups(), *self._same_op_twice(), *self._same_port_twice()]
        refuse(*problems, *self._unloaded_adapters(), *self._expected_but_off(), *self._broken_rules())
        return self

    @property
    def has_eplb(self) -> bool:
        """Whether experts move by their load, on some rank at least."""
        return self.config.enable_eplb or any(own.enable_eplb for own in self.config_by_rank.values())

    def config_of(self, rank: int) -> EngineConfig:
        """The configuration of a rank."""
        own = self.config_by_rank.get(rank)
        return self.config if own is None else own.over(self.config)

    def named(self) -> Iterator[tuple[KeyPath, int | str]]:
        """All ranks and services that are named, with the place of each."""
        for i, fault in enumerate(self.faults):
            yield ("faults", i, "rank"), fault.rank
            if isinstance(fault, Alter) and fault.change.root is not None:
                yield ("faults", i, "change", "root"), fault.change.root
        yield from ((("delays", i, "rank"), delay.rank) for i, delay in enumerate(self.delays))
        for i, message in enumerate(self.messages):
            yield ("messages", i, "to"), message.to
            if message.after is not None:
                yield ("messages", i, "after", "rank"), message.after.rank
        yield from ((("config_by_rank", str(rank)), rank) for rank in self.config_by_rank)
        for path, expect in self._expected():
            if expect.culprit is not None:
                yield (*path, "culprit", "rank"), expect.culprit.rank

    def _broken_rules(self) -> Iterator[Problem]:
        """What the configuration's own release has against it, and against that of single ranks."""
        for found in broken_rules(self.config, self.topology):
            yield Problem((_section(found), *found.field.split(".")), found.message)
        for rank, own in self.config_by_rank.items():
            place = ("config_by_rank", str(rank))
            try:
                config = own.over(self.config)
            except ValidationError as error:
                yield from (Problem(place, detail["msg"].removeprefix("Value error, ")) for detail in error.errors())
                continue
            for found in broken_rules(config, self.topology):
                if _section(found) == "config":
                    yield Problem((*place, *found.field.split(".")), found.message)
                else:
                    yield Problem(place, str(found))

    def _wrong_ranks(self) -> Iterator[Problem]:
        """Ranks that the topology does not have."""
        size = self.topology.world_size
        has = f"{size} ranks, 0 to {size - 1}" if size > 1 else "one rank, 0"
        yield from (
            Problem(path, f"rank {rank}: the topology has {has}")
            for path, rank in self.named()
            if isinstance(rank, int) and rank >= size
        )

    def _wrong_groups(self) -> Iterator[Problem]:
        """Communicators that do not exist, or that a rank or root does not belong to."""
        injected: list[tuple[KeyPath, FaultSpec | KillSpec | DelaySpec]] = []
        injected += [(("faults", i), fault) for i, fault in enumerate(self.faults)]
        injected += [(("delays", i), delay) for i, delay in enumerate(self.delays)]
        named = [(path, item, item.at.communicator) for path, item in injected if item.at and item.at.communicator]
        groups = {spec.name: spec.ranks for spec in communicators(self.topology, self.has_eplb)} if named else {}
        for path, item, name in named:
            members = groups.get(name)
            if members is None:
                few = f"; expected one of {', '.join(groups)}" if len(groups) <= 12 else ""
                message = f"no communicator {name!r} in this topology{few}{did_you_mean(name, groups)}"
                yield Problem((*path, "at", "communicator"), message)
                continue
            root = item.change.root if isinstance(item, Alter) else None
            for key, rank in (("rank",), item.rank), (("change", "root"), root):
                if isinstance(rank, int) and rank not in members and rank < self.topology.world_size:
                    message = f"rank {rank} is not in the communicator {name}, which has {_some(members)}"
                    yield Problem((*path, *key), message)

    def _same_op_twice(self) -> Iterator[Problem]:
        """Two faults at one op, or two deaths of a rank at any time: only one of them could happen."""
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
        """Two programs at one port from the start."""
        first: dict[tuple[int, int], int] = {}
        for i, taken in enumerate(self.ports):
            earlier = first.setdefault((taken.node, taken.port), i)
            if earlier != i:
                yield Problem(
                    ("ports", i), f"port {taken.port} of node {taken.node} is that of ports[{earlier}] already"
                )

    def _expected_but_off(self) -> Iterator[Problem]:
        """A finding that is expected and switched off."""
        for i, pattern in enumerate(self.checks.switched_off):
            for path, expect in self._expected():
                if expect.klass is not None and matches(expect.klass, pattern):
                    message = f"{pattern} switches off the class {expect.klass} that {path_text(path)} waits for"
                    yield Problem(("checks", "switched_off", i), message)

    def _expected(self) -> Iterator[tuple[KeyPath, ExpectAny]]:
        """What is expected of a run, and what of all schedules, with the place of each."""
        yield ("expect",), self.expect
        if self.expect.explored is not None:
            yield ("expect", "explored"), self.expect.explored

    def _unloaded_adapters(self) -> Iterator[Problem]:
        """Requests that need an adapter where there are none."""
        for i, request in enumerate(self.workload.requests or ()):
            if request.lora is not None and not self.config.enable_lora:
                message = f"the adapter {request.lora!r} needs config.enable_lora: true"
                yield Problem(("workload", "requests", i, "lora"), message)


def _section(found: Broken) -> str:
    return "topology" if found.field in Topology.model_fields else "config"


def _some(ranks: tuple[int, ...]) -> str:
    text = ", ".join(map(str, ranks[:8]))
    return f"ranks {text}, ..." if len(ranks) > 8 else f"rank{'s' if len(ranks) > 1 else ''} {text}"
