"""What runs on every rank, and what a scenario hands to it.

A backend makes a `Program` by its registered name, calls `prepare` once in each process, and runs one coroutine per
rank. `Program[P]` says what `prepare` makes of the arguments, so that a type checker knows it in `run`:

    class Largest(Program[Limits]):
        def prepare(self, args: Arguments) -> Limits:
            return Limits(steps=args.steps)

        async def run(self, rank: Rank, prepared: Limits) -> None:
            for rank.step in range(prepared.steps):
                ...

Who writes no types leaves `[P]` out, and who needs no preparation leaves `prepare` out: then `run` gets the
`Arguments` themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isabstract, isasyncgenfunction, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from dpsim.contract.interface import Rank
from dpsim.contract.ops import Domain, RawRecord

RUN = "async def run(self, rank, prepared)"

P = TypeVar("P")
"""What `prepare` returns."""


class Unsuitable(ValueError):
    """A world or work that a program cannot run, raised by `Program.prepare`: what it is, and what was expected."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What a scenario hands to its program: plain data, which crosses to worker processes.

    The parameters of the program are attributes of a derived class. `variant` is the name of a registered variant, if
    one is to run. `pieces`: of single pieces of the form (`Program.pieces`) another one, by name. `allow_refused`: what
    the program refuses is wanted.
    """

    form: str
    variant: str | None = None
    pieces: Mapping[str, str] = field(default_factory=dict)
    allow_refused: bool = False

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A parameter: its name and type are those of the derived class."""

    def refuse_unheeded(self, name: str, program: Program[Any]) -> None:
        """Raise Unsuitable for what the program, registered as `name`, would leave out without a word."""


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
    aborts: bool = False
    """Whether its ranks abort communicators (`HostCommunicator.abort`): then each part of a collective may be broken
    off, or lost with a peer's."""
    honours_config_by_rank: bool = False
    heeds: ClassVar[tuple[str, ...] | None] = None
    """Which optional parts of its parameters it looks at: it is handed no world in which another one is set
    (`Arguments.refuse_unheeded`). None: all of them."""
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

    def prepare(self, args: Any) -> P:
        """Turn the `Arguments` into what `run` needs; by default, `run` gets them as they are. Ranks of one process
        share the result: `run` must not change it.

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
        the scenario. A service is a member of host communicators, by its number (`Rank.service`).
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
