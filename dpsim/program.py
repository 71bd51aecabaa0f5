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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copyreg import dispatch_table
from dataclasses import dataclass, field
from functools import cache, cached_property
from inspect import isabstract, isasyncgenfunction, iscoroutinefunction, signature
from io import BytesIO
from pickle import DEFAULT_PROTOCOL, Pickler
from types import FunctionType
from typing import Any, Generic, NamedTuple, TypeVar, cast

from dpsim.interface import Rank
from dpsim.ops import Domain, RawRecord

RUN = "async def run(self, rank, prepared)"

P = TypeVar("P")
"""What `prepare` returns."""


class Unsuitable(ValueError):
    """A world or workload that a program cannot run, raised by `Program.prepare`: what it is, and what was expected."""


class SharedState(ValueError):
    """`run` changed what its ranks share, where they share a process: the program, or what `prepare` made."""


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


@dataclass(frozen=True)
class Arguments:
    """What a scenario hands to its program: plain data, which crosses to worker processes.

    `topology` and `config` are the fields of `dpsim.config.Topology` and `dpsim.config.EngineConfig`. `step_ns`: how
    far apart the ticks of the step clock are. `variant` is the name of a registered variant, if one is to run.
    `config_by_rank` has the fields that single ranks have in place of those of `config`.
    """

    topology: Mapping[str, Any]
    config: Mapping[str, Any]
    requests: tuple[Request, ...]
    step_ns: int
    form: str
    variant: str | None = None
    config_by_rank: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def config_of(self, rank: int) -> Mapping[str, Any]:
        """The fields of one rank's `dpsim.config.EngineConfig`."""
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


def refuse_changes(program: Program[Any], prepared: Any, before: Mapping[str, Any]) -> None:
    """Runs must not change what ranks of one process share, since ranks of several processes do not. Raises SharedState
    with a thing that is not as it was, by `state_of`.
    """
    after = state_of(program, prepared)
    if after == before:
        return
    for name in sorted(after.keys() | before.keys()):
        if before.get(name) != after.get(name):
            run = type(program).run
            place = f"{run.__module__.replace('.', '/')}.py:{run.__code__.co_firstlineno}"
            raise SharedState(
                f"{type(program).__qualname__}.run ({place}) changed {name}. Ranks in one process share it, and ranks "
                "in processes of their own do not; keep what changes in local variables of run"
            )


def state_of(program: Program[Any], prepared: Any) -> dict[str, Any]:
    """All that ranks share, by name: pickled, which tells whether anything in it has changed; what cannot change as it
    is, or not at all. What refuses to be pickled (a lock, a lambda) stands for itself by its type and name, and what
    lies around it is compared. What remembers results says by `__reduce__` that they are no part of it.
    """
    owners = [*map(vars, _classes(type(program))), vars(program)]
    named = {f"self.{name}": value for owner in owners for name, value in owner.items()}
    parts = vars(prepared) if hasattr(prepared, "__dict__") else {}
    if parts:
        named |= {f"prepared.{name}": value for name, value in parts.items()}
    elif not _cannot_change(prepared):
        named["prepared"] = prepared
    state: dict[str, Any] = {}
    for name, value in named.items():
        if isinstance(value, _FIXED):
            state[name] = value
            continue
        if name.startswith(_UNSEEN):
            continue
        for pickler in (_WithoutCaches, _ByName):  # the second is slow, and few need it
            with suppress(Exception):  # whatever somebody's own way to be pickled raises
                stream = BytesIO()
                pickler(stream).dump(value)
                state[name] = stream.getvalue()
                break
    return state


_UNSEEN = ("self.__", "self._abc_impl")
"""What Python puts into a class."""

_FIXED = (int, float, str, type(None), type, FunctionType, staticmethod, classmethod, property)

_VALUES = frozenset({int, float, bool, str, bytes, type(None)})

_WALKED = _VALUES | {tuple, list, dict, set, frozenset}
"""What a pickler goes into, or writes down, by itself."""

_NAMED = (type, FunctionType)


def _cannot_change(value: Any) -> bool:
    """Whether nobody can change a value: numbers, text, and tuples of these, named or not."""
    if isinstance(value, tuple) and not hasattr(value, "__dict__"):
        return _VALUES.issuperset(map(type, value)) or all(map(_cannot_change, value))
    return type(value) in _VALUES


class _WithoutCaches(Pickler):
    """Leaves out cached properties: they are filled in when somebody asks, and change nothing."""

    def reducer_override(self, obj: Any) -> Any:
        kind: Any = type(obj)
        cached = _cached(kind)
        if not cached:
            return NotImplemented
        kept = {name: value for name, value in vars(obj).items() if name not in cached}
        return kind, tuple(obj) if isinstance(obj, tuple) else (), kept


class _ByName(_WithoutCaches):
    """Puts the names of things in place of those that cannot be pickled, and of all functions and classes, which may
    have been made within a function. Nobody reads what it writes.
    """

    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _WALKED:
            return None
        if not isinstance(obj, _NAMED):
            with suppress(Exception):
                reduce = dispatch_table.get(kind)
                if type(reduce(obj) if reduce else obj.__reduce_ex__(DEFAULT_PROTOCOL)) is tuple:
                    return None  # and no name of something that may not be found
        return f"{kind.__module__}.{kind.__qualname__} {getattr(obj, '__qualname__', '')}"


@cache
def _classes(kind: type[Program[Any]]) -> tuple[type[Any], ...]:
    """A program's class and those that it inherits from, the first of them first; without `Program`."""
    return tuple([one for one in reversed(kind.__mro__) if issubclass(one, Program) and one is not Program])


@cache
def _cached(kind: Any) -> frozenset[str]:
    """The names of its cached properties."""
    owners = [vars(owner) for owner in kind.__mro__]
    return frozenset(name for owner in owners for name, value in owner.items() if isinstance(value, cached_property))


__all__ = [
    "Arguments",
    "Program",
    "Request",
    "SharedState",
    "Unsuitable",
    "refuse_changes",
    "refuse_no_program",
    "state_of",
]
