"""What runs on every rank, and what a scenario hands to it.

A backend makes a `Program` by its registered name, calls `prepare` once in each process, and runs one coroutine per
rank. `Program[P]` says what `prepare` makes of the arguments, so that a type checker knows it in `run`:

    class Largest(Program[Limits]):
        def prepare(self, args: Arguments) -> Limits:
            return Limits(steps=len(args.requests))

        async def run(self, rank: Rank, prepared: Limits) -> None:
            for rank.step in range(prepared.steps):
                ...

Who writes no types leaves `[P]` out, and who needs no preparation leaves `prepare` out: then `run` gets the
`Arguments` themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isabstract, isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain, RawRecord

RUN = "async def run(self, rank, prepared)"

P = TypeVar("P")
"""What `prepare` returns."""


class Unsuitable(ValueError):
    """A world or workload that a program cannot run, raised by `Program.prepare`: what it is, and what was expected."""


class Request(NamedTuple):
    """One request. Times are ns on the step clock; `output_tokens` includes the one that ends the prefill."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    abort_ns: int | None = None
    lora: str | None = None
    force_eager: bool = False  # its steps run without a CUDA graph, as by vLLM's argument of that name
    prefix: str | None = None  # requests of one prefix begin with the same tokens
    encoder_inputs: bool = False  # its first step brings inputs for an encoder
    stop_after: int | None = None  # the model says a stop token so many output tokens on: nobody knows it before
    drafts: tuple[int, ...] | None = None  # of its decodes in turn, at most; the last is that of all that follow
    structured_output: bool = False  # its tokens follow a grammar, whose masks are made of those before
    session: str | None = None  # goes on where the request of its session that came before it ended

    @property
    def length(self) -> int:
        """Output tokens that its client is told."""
        return self.output_tokens if self.stop_after is None else min(self.stop_after, self.output_tokens)


@dataclass(frozen=True)
class Arguments:
    """What a scenario hands to its program: plain data, which crosses to worker processes.

    `topology` and `config` are the fields of `dpsim.vllm.config.Topology` and `dpsim.vllm.config.EngineConfig`.
    `step_ns`: how far apart the ticks of the step clock are. `variant` is the name of a registered variant, if one is
    to run. `config_by_rank` has the fields that single ranks have in place of those of `config`. `pieces`: of single
    pieces of the form (`Program.pieces`) another one, by name. `allow_refused`: what the engine refuses is wanted.
    """

    topology: Mapping[str, Any]
    config: Mapping[str, Any]
    requests: tuple[Request, ...]
    step_ns: int
    form: str
    variant: str | None = None
    config_by_rank: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    pieces: Mapping[str, str] = field(default_factory=dict)
    allow_refused: bool = False

    def config_of(self, rank: int) -> Mapping[str, Any]:
        """The fields of one rank's `dpsim.vllm.config.EngineConfig`."""
        return {**self.config, **self.config_by_rank.get(rank, {})}


class Program(ABC, Generic[P]):
    """What runs on every rank: `prepare` once per process, `run` once per rank.

    `probes`: labels of `Rank.probe` that some schedule of some world should come to; exploration lists those that none
    came to. `honours_config_by_rank`: whether it asks `Arguments.config_of`; one that does not is handed no world in
    which ranks differ.
    """

    probes: tuple[str, ...] = ()
    threaded: bool = False
    """Whether its ranks start host threads (`Rank.start`): then a thread may be held up before each of its calls."""
    ordered_by_flags: bool = False
    """Whether what its threads share in Python is ordered by flags, starts, joins and aborts where the order matters.
    Then calls of two threads on different flags are tried in one order only, and so is a call on a flag and any other.
    It is a promise: a proof says that it assumes it."""
    aborts: bool = False
    """Whether its ranks abort communicators (`HostCommunicator.abort`): then each part of a collective may be broken
    off, or lost with a peer's."""
    honours_config_by_rank: bool = False
    heeds: ClassVar[tuple[str, ...] | None] = None
    """Which optional fields of requests and which `SWITCHES` of the configuration it looks at: it is handed no world in
    which another one is set (`refuse_unheeded`). None: all of them."""
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """What its forms are put together of: pieces that a scenario may swap one by one, and the names of each one's
    forms."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Raises TypeError for a `run` that nobody can await, as it would have done all it does before the first await,
        and for one that takes other arguments.
        """
        super().__init_subclass__(**more)
        if getattr(cls.run, "__isabstractmethod__", False):
            return
        if not iscoroutinefunction(cls.run):
            has = " and has a yield, which makes it a generator" if isasyncgenfunction(cls.run) else ""
            raise TypeError(f"{cls.__qualname__}.run is no coroutine function{has}; write `{RUN}`")
        try:
            signature(cls.run).bind(None, None, None)
        except TypeError as error:
            raise TypeError(f"{cls.__qualname__}.run cannot be called ({error}); write `{RUN}`") from None

    def reachable(self, prepared: P) -> tuple[str, ...]:
        """Those of `probes` that this world can come to at all, all of them unless the program knows better."""
        return self.probes

    def prepare(self, args: Arguments) -> P:
        """Turn the arguments into what `run` needs; by default, `run` gets them as they are. Ranks of one process share
        the result: `run` must not change it.

        Raises Unsuitable. A program that no scenario runs is handed whatever plain data its caller gave to the backend.
        """
        return cast(P, args)

    def services(self, prepared: P) -> tuple[str, ...]:
        """Names of the actors beside the ranks, each of which runs `serve`: a coordinator, front ends. They have
        mailboxes, stores, and the host communicators of which `groups` makes them members.
        """
        return ()

    def nodes(self, prepared: P) -> tuple[int, ...]:
        """The node of each rank and then of each service; empty if there is one node."""
        return ()

    def groups(self, prepared: P) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]] | None:
        """Kinds of communicators with their member lists, for a program that makes its groups itself; None: those of
        the topology. A service is a member of host communicators, by its number (`Rank.service`).
        """
        return None

    async def serve(self, rank: Rank, prepared: P) -> None:
        """The coroutine of the service `rank.name`."""
        raise NotImplementedError(f"{type(self).__qualname__} names services and has no `serve`")

    def steps(self, prepared: P) -> int | None:
        """How many steps the program will make, for the progress bar; None if that is not known."""
        return None

    def figures(self, prepared: P, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """What a finished run says about the protocol, for the final table: name -> number, text, or mapping of
        such.
        """
        return {}

    @abstractmethod
    async def run(self, rank: Rank, prepared: P) -> None:
        """The coroutine of one rank."""


SWITCHES = ("enable_eplb",)
"""Fields of the configuration that mean nothing to a program without the part that they switch on."""


def refuse_unheeded(name: str, args: Arguments, heeds: Collection[str]) -> None:
    """Raise Unsuitable for the first field that is set and that the program `name` would leave out without a word.

    >>> refuse_unheeded("small", Arguments({}, {}, (Request(0, 1, 1, session="a"),), 1, ""), ["stop_after"])
    Traceback (most recent call last):
    dpsim.contract.program.Unsuitable: workload: request 0 has session, at which small does not look; remove it
    """
    fields = [(key, default) for key, default in Request._field_defaults.items() if key not in heeds]
    for number, request in enumerate(args.requests):
        for key, default in fields:
            if getattr(request, key) != default:
                word = key.removesuffix("_ns")
                raise Unsuitable(f"workload: request {number} has {word}, at which {name} does not look; remove it")
    for place, config in (
        ("config", args.config),
        *((f"config_by_rank.{n}", c) for n, c in args.config_by_rank.items()),
    ):
        for key in SWITCHES:
            if key not in heeds and config.get(key):
                raise Unsuitable(f"{place}.{key}: {name} does not look at it; remove it")


def refuse_no_program(program: Any) -> None:
    """Raise TypeError for what is no class derived from Program, has no `run`, or cannot be made without arguments."""
    if not (isinstance(program, type) and issubclass(program, Program)):
        name = getattr(program, "__name__", repr(program))
        raise TypeError(f"{name} is no class derived from Program; write `class {name}(Program)` with `{RUN}`")
    if isabstract(program):
        missing = ", ".join(sorted(program.__abstractmethods__))
        raise TypeError(f"{program.__qualname__} has no {missing}; write `{RUN}`")
    try:
        signature(program).bind()
    except TypeError as error:
        raise TypeError(f"{program.__qualname__} is made without arguments ({error}); give them defaults") from None
