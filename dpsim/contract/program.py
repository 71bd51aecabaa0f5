"""What runs on every rank, and what a scenario hands to it.

A backend makes a `Program` by its registered name, calls `prepare` once in each process, and runs one coroutine per
rank. `Program[P]` says what `prepare` makes of the arguments, so that a type checker knows it in `run`:

    class Largest(Program[Limits]):
        def prepare(self, args: Arguments) -> Limits:
            return Limits(steps=args.steps)

        async def run(self, rank: Rank, prepared: Limits) -> None:
            for rank.step in range(prepared.steps):
                ...

A program without types leaves `[P]` out. A program without `prepare` gets the `Arguments` themselves in `run`.

A program may have parameters. `Params` is a pydantic model, and a scenario gives values for its fields
(`protocol: {name: waves, params: {interval: 2}}`). `ranks` says how many ranks such a world has:

    class Sizes(BaseModel):
        interval: int = Field(4, ge=1)

    class Waves(Program[Arguments[Sizes]]):
        Params = Sizes

        @staticmethod
        def ranks(params: Sizes) -> int:
            return 2

        async def run(self, rank: Rank, args: Arguments[Sizes]) -> None:
            for rank.step in range(args.params.interval):
                ...
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import getattr_static, isabstract, isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, ClassVar, Generic, NamedTuple, cast

from typing_extensions import TypeVar

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain, RawRecord
from dpsim.contract.words import gigabytes

RUN = "async def run(self, rank, prepared)"
RANKS = "def ranks(params)"

P = TypeVar("P", default=Any)
"""What `prepare` returns."""

Q = TypeVar("Q", default=Any)
"""A program's model of its parameters."""


class Unsuitable(ValueError):
    """A world or work that a program cannot run, raised by `Program.prepare`: what it is, and what was expected."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Generic[Q]):
    """What a scenario hands to its program: plain data, which crosses to worker processes.

    `variant` is the name of a registered variant, if one is to run. `pieces`: of single pieces of the form
    (`Program.pieces`) another one, by name. `allow_refused`: what the program refuses is wanted. `params`: the
    parameters, as plain data until `dpsim.contract.registry.prepared` makes an instance of `Program.Params` of them;
    None for a program without. A package with parameters of another kind adds fields in a derived class.
    """

    form: str
    variant: str | None = None
    pieces: Mapping[str, str] = field(default_factory=dict)
    allow_refused: bool = False
    params: Q = cast(Any, None)  # noqa: RUF009 - None, to a type checker any model

    def refuse_unheeded(self, name: str, program: Program[Any]) -> None:
        """Raise Unsuitable for what the program, registered as `name`, would leave out without a word."""


class Estimate(NamedTuple):
    """How large a run is about. `bytes`: what it holds in memory, its records among them.

    >>> str(Estimate(20_000, 180_001, 72_000_000))
    'about 20,000 steps, 180,001 records, 0.072 GB'
    """

    steps: int
    records: int
    bytes: int

    def __str__(self) -> str:
        return f"about {self.steps:,} steps, {self.records:,} records, {gigabytes(self.bytes)}"


class Program(ABC, Generic[P]):
    """What runs on every rank: `prepare` once per process, `run` once per rank.

    `probes`: labels of `Rank.probe` that some schedule of some world should come to; exploration lists those that none
    came to. `honours_config_by_rank`: whether it gives each rank its own settings; one that does not is handed no world
    in which ranks differ.
    """

    probes: tuple[str, ...] = ()
    threaded: bool = False
    """Whether its ranks start host threads (`Rank.start`): then a thread may be held up before each of its calls."""
    ordered_by_flags: bool = False
    """Whether what its threads share in Python is ordered by flags, starts, joins and aborts where the order matters.
    Then calls of two threads on different flags are tried in one order only, and so is a call on a flag and any other.
    It is a promise: a proof says that it assumes it."""
    ordered_by_objects: bool = False
    """Whether the order of two threads' calls matters only where both are on one object. Objects are flags, threads,
    communicators, streams, stores and mailboxes. A program that promises it puts the calls of a device communicator
    on one stream. In `assumes` it says what its threads may share in Python."""
    aborts: bool = False
    """Whether its ranks abort communicators (`HostCommunicator.abort`): then each part of a collective may be broken
    off, or lost with a peer's."""
    honours_config_by_rank: bool = False
    apart: bool = False
    """Whether each rank has its own process, on the simulation too: then its ranks share nothing in Python."""
    Params: ClassVar[type[Any] | None] = None
    """The pydantic model of its parameters; None for a program without, or with those of another package."""
    heeds: ClassVar[tuple[str, ...] | None] = None
    """Which optional parts of its parameters it looks at: it is handed no world in which another one is set
    (`Arguments.refuse_unheeded`). None: all of them."""
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """What its forms are put together of: pieces that a scenario may swap one by one, and the names of each one's
    forms."""
    protects: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Of forms: from what each protects although no published version does. `dpsim list` prints it."""
    unprotected: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Of forms: what a published version leaves unprotected, and the form that protects. Reports of findings say it."""
    shows: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Of a sentence of `unprotected`: the classes of findings in which it shows, as patterns; if left out, all."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Raises TypeError for a `run` that is no coroutine function, or that takes other arguments; for `Params` that
        are no pydantic model; and for `Params` and `ranks` of which a program has only one.
        """
        super().__init_subclass__(**more)
        _check_params(cls)
        if getattr(cls.run, "__isabstractmethod__", False):
            return
        if not iscoroutinefunction(cls.run):
            has = " and has a yield, which makes it a generator" if isasyncgenfunction(cls.run) else ""
            raise TypeError(f"{cls.__qualname__}.run is no coroutine function{has}; write `{RUN}`")
        try:
            signature(cls.run).bind(None, None, None)
        except TypeError as error:
            raise TypeError(f"{cls.__qualname__}.run cannot be called ({error}); write `{RUN}`") from None

    @staticmethod
    def ranks(params: Any) -> int:
        """How many ranks a world with these parameters has, from 1. A program with `Params` says it."""
        raise NotImplementedError(f"a program without Params has no `{RANKS}`")

    @staticmethod
    def one_more(params: Any) -> Any:
        """The parameters of the same world with one rank more, the last, which does what the last one here does. Two
        ranks that differ have no majority; of three, one departs from the others. None: there is no such world.
        """
        return None

    @classmethod
    def with_params(cls, args: Any) -> Any:
        """Arguments with an instance of `Params` in place of plain data, which is read as a scenario file is. Raises
        Unsuitable for data that the model refuses.
        """
        if cls.Params is None or not isinstance(args, Arguments) or isinstance(args.params, cls.Params):
            return args
        try:
            return replace(args, params=cls.Params.model_validate_json(json.dumps(args.params or {}), strict=True))
        except ValueError as error:
            raise Unsuitable(f"the parameters of {cls.__qualname__}: {error}") from None

    def assumes(self, did: Collection[tuple[Any, ...]]) -> Sequence[str]:
        """What a proof of it takes for granted beside what hardware may do, in a few words each. `did`: the kinds of
        record that its runs had, each with the fields that tell assumptions apart ("probe" with its label).
        """
        return ()

    def reachable(self, prepared: P) -> tuple[str, ...]:
        """Those of `probes` that this world can come to at all, all of them unless the program knows better."""
        return self.probes

    def prepare(self, args: Any) -> P:
        """Turn the `Arguments` into what `run` needs; by default, `run` gets them as they are. Ranks of one process
        share the result: `run` must not change it.

        Raises Unsuitable. A program that no scenario runs is handed whatever plain data its caller gave to the backend.
        """
        return cast(P, args)

    def estimate(self, args: Any) -> Estimate | None:
        """How large a run with these `Arguments` is about, found out in no time: it is asked before `prepare`. None if
        the program does not know. A run that is too large for the machine is refused then.
        """
        return None

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
        the scenario. A program with `Params` has then two of all ranks, of kind `world`: one on hosts, one on devices.
        A service is a member of host communicators, by its number (`Rank.service`).
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


def _check_params(program: type[Program[Any]]) -> None:
    """Raise TypeError for parameters that no scenario can give, and for a program that does not say its ranks."""
    name, write = program.__qualname__, f"write `@staticmethod` and `{RANKS}`"
    ranks: Any = getattr_static(program, "ranks")
    model: Any = program.Params
    says = ranks is not getattr_static(Program, "ranks")
    if model is None:
        if says and isinstance(ranks, staticmethod):
            raise TypeError(f"{name} has `ranks` and no `Params`; write `Params = ` and a pydantic model of parameters")
        return
    if not (isinstance(model, type) and hasattr(model, "model_fields") and model.__name__ != "BaseModel"):
        raise TypeError(f"{name}.Params is {model!r}; expected a class derived from pydantic.BaseModel")
    if not says:
        raise TypeError(f"{name} has `Params` and does not say its ranks; {write}")
    if not isinstance(ranks, staticmethod):
        raise TypeError(f"{name}.ranks is no static method; {write}")
    if iscoroutinefunction(program.ranks):
        raise TypeError(f"{name}.ranks is a coroutine function; {write}")
    try:
        signature(program.ranks).bind(None)
    except TypeError as error:
        raise TypeError(f"{name}.ranks cannot be called ({error}); {write}") from None


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
