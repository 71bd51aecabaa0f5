"""The class of all programs: a coroutine that runs on every rank, and the arguments that a scenario gives it.

A backend creates a `Program` by its registered name, calls `prepare` once in each process, and runs one coroutine per
rank. `P` in `Program[P]` is the type that `prepare` returns, so a type checker can check its use in `run`:

    class Largest(Program[Limits]):
        def prepare(self, args: Arguments) -> Limits:
            return Limits(steps=args.steps)

        async def run(self, rank: Rank, prepared: Limits) -> None:
            for rank.step in range(prepared.steps):
                ...

A program without types leaves `[P]` out. Without a `prepare` method, `run` receives the `Arguments` themselves.

A program may have parameters. `Params` is a pydantic model, and a scenario gives values for its fields
(`protocol: {name: waves, params: {interval: 2}}`). `ranks` returns the number of ranks of such a world:

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
from inspect import isabstract, isasyncgenfunction, iscoroutinefunction, signature
from typing import Any, ClassVar, Generic, NamedTuple, cast

from typing_extensions import TypeVar

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain, RawRecord
from dpsim.contract.program_parts import RANKS, check_methods, check_params
from dpsim.contract.words import gigabytes

RUN = "async def run(self, rank, prepared)"
P = TypeVar("P", default=Any)
"""The type that `prepare` returns."""

Q = TypeVar("Q", default=Any)
"""The pydantic model of a program's parameters."""


class Unsuitable(ValueError):
    """`Program.prepare` raises this if the program cannot run in the world or with the arguments. The text states what
    it found and what it expected.
    """


@dataclass(frozen=True, kw_only=True)
class Arguments(Generic[Q]):
    """The arguments that a scenario gives to its program: plain data, since dpsim pickles them for worker processes.

    `variant` is the name of a registered variant, if one runs. `pieces`: replacements for single pieces of the form
    (`Program.pieces`), by name. `allow_refused`: the user allows a combination that the program otherwise refuses.
    `params`: the parameters, as plain data until `dpsim.contract.registry.prepared` makes an instance of
    `Program.Params`; None for a program without parameters. A package with parameters of another kind adds fields in a
    derived class.
    """

    form: str
    variant: str | None = None
    pieces: Mapping[str, str] = field(default_factory=dict)
    allow_refused: bool = False
    params: Q = cast(Any, None)  # noqa: RUF009 - None; a type checker accepts any model

    def refuse_unheeded(self, name: str, program: Program[Any]) -> None:
        """Raises Unsuitable for settings that the program, registered as `name`, would silently ignore."""


class Estimate(NamedTuple):
    """The approximate size of a run. `bytes`: its memory, including records.

    >>> str(Estimate(20_000, 180_001, 72_000_000))
    'about 20,000 steps, 180,001 records, 0.072 GB'
    """

    steps: int
    records: int
    bytes: int

    def __str__(self) -> str:
        return f"about {self.steps:,} steps, {self.records:,} records, {gigabytes(self.bytes)}"


class Unmodified(NamedTuple):
    """A program of torch.distributed, as torchrun runs it: a script with arguments, or a function of a file."""

    file: str
    function: str = ""
    args: tuple[str, ...] = ()


class Program(ABC, Generic[P]):
    """The base class of programs. A backend calls `prepare` once per process, and `run` once per rank.

    `probes`: labels of `Rank.probe` that some schedule of some world should reach; exploration lists those that none
    reached. `honours_config_by_rank`: whether the program gives each rank its own settings. If not, dpsim runs it in no
    world in which ranks have different settings.
    """

    probes: tuple[str, ...] = ()
    modes: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    """By name, the modes that some schedule of some world should reach. Each is a label of `Rank.decide` and a value
    that ranks decide there. Campaigns list the modes that no world reached.
    """
    rows: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    """The same for rows of the tables by which the program decides. A mode and a row must not have the same name."""
    threaded: bool = False
    """Whether its ranks start host threads (`Rank.start`). Then a thread may stop before each of its calls."""
    ordered_by_flags: bool = False
    """Whether flags, starts, joins and aborts order the Python state that its threads share, wherever the order
    matters. Then a search tries calls of two threads on different flags in one order only. The same applies to a call
    on a flag and any other call. This is a promise of the program, and a proof lists it as an assumption.
    """
    ordered_by_objects: bool = False
    """Whether the order of two threads' calls matters only if both are on one object. Objects are flags, threads,
    communicators, streams, stores and mailboxes. A program that promises this puts the calls of a device communicator
    on one stream. Its `assumes` says which Python state its threads may share.
    """
    aborts: bool = False
    """Whether its ranks abort communicators (`HostCommunicator.abort`). Then a search tries aborts before and after the
    end of each collective.
    """
    honours_config_by_rank: bool = False
    apart: bool = False
    """Whether each rank runs in its own process, also in the simulation. Then its ranks share nothing in Python."""
    Params: ClassVar[type[Any] | None] = None
    """The pydantic model of its parameters; None for a program without, or with those of another package."""
    heeds: ClassVar[tuple[str, ...] | None] = None
    """The optional parts of its parameters that it uses; None for all. dpsim gives it no world in which another part is
    set (`Arguments.refuse_unheeded`).
    """
    pieces: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The pieces of its forms, which a scenario may replace one by one, with the names of the forms of each piece."""
    protects: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By form: protections that no published version has. `dpsim list` prints them."""
    unprotected: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By form: what a published version leaves unprotected, and the form that protects it. Reports print this with a
    finding.
    """
    shows: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """By sentence of `unprotected`: the classes of findings to which it applies, as patterns; all classes if left
    out.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        """Raises TypeError for a `run` that is no coroutine function or takes other arguments. Also raises it if
        `Params` is no pydantic model, or if a program has only one of `Params` and `ranks`. A method must be callable.
        """
        super().__init_subclass__(**more)
        check_params(cls, Program)
        check_methods(cls, Program)
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
        """Returns the number of ranks of a world with these parameters, at least 1. A program with `Params` has to
        define it.
        """
        raise NotImplementedError(f"a program without Params has no `{RANKS}`")

    @staticmethod
    def one_more(params: Any) -> Any:
        """Returns the parameters of the same world with one more rank, which acts like the last one; None if there is
        no such world. Diagnosis uses it: if two ranks disagree, there is no majority; of three, one departs from the
        others.
        """
        return None

    @classmethod
    def with_params(cls, args: Any) -> Any:
        """Returns the arguments with an instance of `Params` in place of plain data. The data follow the rules of a
        scenario file. Raises Unsuitable for data that the model refuses.
        """
        if cls.Params is None or not isinstance(args, Arguments) or isinstance(args.params, cls.Params):
            return args
        try:
            return replace(args, params=cls.Params.model_validate_json(json.dumps(args.params or {}), strict=True))
        except ValueError as error:
            raise Unsuitable(f"the parameters of {cls.__qualname__}: {error}") from None

    def assumes(self, did: Collection[tuple[Any, ...]], prepared: P) -> Sequence[str]:
        """Returns the assumptions of a proof of this program, besides those about hardware, in a few words each. `did`:
        the kinds of record in its runs, each with the fields that distinguish assumptions ("probe" with its label).
        `prepared`: the result of `prepare`.
        """
        return ()

    def elsewhere(self, prepared: P) -> Sequence[tuple[P, str]]:
        """Returns what `run` receives in further runs whose ranks differ as processes may, and what differs, in words.
        dpsim asks if all schedules hold. If such a run fails, that is a finding.
        """
        return ()

    def unmodified(self, prepared: P) -> Unmodified | None:
        """Returns what runs on real processes without dpsim, if the program only wraps that. By default None."""
        return None

    def reachable(self, prepared: P) -> tuple[str, ...]:
        """Returns those of `probes` that this world can reach. By default these are all."""
        return self.probes

    def forms_of_pieces(self, args: Any) -> Mapping[str, str]:
        """Returns, for each piece, the form that a run with these `Arguments` uses. By default these are the replaced
        pieces.
        """
        return args.pieces if isinstance(args, Arguments) else {}

    def prepare(self, args: Any) -> P:
        """Returns the second argument of `run`, made from the `Arguments`; by default the `Arguments` themselves. Ranks
        of one process share this object, so `run` must not change it.

        Raises Unsuitable if the program cannot run with them. If no scenario runs the program, `args` is the plain data
        that the caller passed to the backend.
        """
        return cast(P, args)

    def estimate(self, args: Any) -> Estimate | None:
        """Returns the approximate size of a run with these `Arguments`; None if unknown. dpsim calls this before
        `prepare`, so it has to be quick. dpsim refuses a run that is too large for the machine.
        """
        return None

    def services(self, prepared: P) -> tuple[str, ...]:
        """Returns the names of the services: actors beside the ranks, such as a coordinator or a front end, which run
        `serve`. They have mailboxes, stores, and the host communicators of which `groups` makes them members.
        """
        return ()

    def nodes(self, prepared: P) -> tuple[int, ...]:
        """Returns the node of each rank and then of each service; empty if all are on one node."""
        return ()

    def groups(self, prepared: P) -> Sequence[tuple[str, Domain, Sequence[tuple[int, ...]]]] | None:
        """Returns, by kind, the member lists of the program's communicators; None for those of the scenario. Without
        them, a program with `Params` has two communicators of all ranks, of kind `world`: one on hosts, one on devices.
        A service is a member of host communicators, by its number (`Rank.service`).
        """
        return None

    async def serve(self, rank: Rank, prepared: P) -> None:
        """The coroutine that the service `rank.name` runs."""
        raise NotImplementedError(f"{type(self).__qualname__} names services and has no `serve`")

    def steps(self, prepared: P) -> int | None:
        """Returns the number of steps of the program, for the progress bar; None if unknown."""
        return None

    def figures(self, prepared: P, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """Returns the program's figures of a finished run, for the final table: name -> number, text, or mapping of
        such. `dpsim.as_record` names the fields of a record.
        """
        return {}

    @abstractmethod
    async def run(self, rank: Rank, prepared: P) -> None:
        """The coroutine that each rank runs. `prepared`: the object that `prepare` returned."""


def refuse_no_program(program: Any) -> None:
    """Raises TypeError unless this is a class derived from Program with a `run` and a constructor without arguments."""
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
