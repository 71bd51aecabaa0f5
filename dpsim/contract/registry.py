"""Protocols, their forms and their variants, by name.

A scenario contains `protocol: {name: hello, form: plain, variant: HELLO-1}` and never an import path, so a scenario
file can run only registered code. A worker process receives the name and the module that registered it, and looks the
name up again. dpsim finds your modules through the entry point group `dpsim.protocols`, through `dpsim run --module`,
or because a test imports them.

    @register_protocol("hello", forms=("plain",))
    class Hello(Program):
        async def run(self, rank, args):
            rank.decide("greeting", "hello in form " + args.form, "dp_cpu")

A *form* is a published version of a protocol (`plain`), equally healthy. A *variant* is a form with one change of about
ten lines: a historical bug or a mutant of the specification. It is registered beside its healthy twin, the form without
the change, and declares the class of finding that must catch it. A variant that derives from the protocol's program
runs in its place. Any other variant replaces a piece of it: the program's `prepare` looks it up (`variant`, or
`dpsim.contract.pieces`):

    @register_variant("HELLO-1", protocol="hello", expected="DISAGREEMENT:GREETING")
    class Rude(Hello):
        async def run(self, rank, args):
            rank.decide("greeting", rank.rank, "dp_cpu")
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any, Literal, TypeVar

from dpsim.contract.installed import entry_points
from dpsim.contract.program import Arguments, Program, Unsuitable, refuse_no_program
from dpsim.contract.words import BadInput, by_number, did_you_mean

ENTRY_POINTS = "dpsim.protocols"
"""The group of entry points whose modules register protocols. To find a protocol, the registry first imports the entry
points with its name. It imports all others for an unknown name, for variants, and for a list of all.
"""


class UnknownName(BadInput):
    """A name that is not registered. The message lists the registered names."""


@dataclass(frozen=True)
class ProtocolEntry:
    """A registered protocol. `forms`: its forms; the first is the default."""

    name: str
    program: type[Program[Any]]
    forms: tuple[str, ...]
    summary: str


@dataclass(frozen=True)
class VariantEntry:
    """A registered variant of `protocol`, made by changing the healthy form `form`.

    `make` derives from the protocol's program, or from a piece of it. `expected` is the class pattern of the finding
    that must catch it. For a variant that affects only speed, or nothing, it is None and `reason` says why. `twin`: a
    healthy variant from which this one differs in one thing; "" for the form.
    """

    name: str
    protocol: str
    form: str
    make: type[Any]
    expected: str | None
    reason: str
    summary: str
    twin: str = ""


_protocols: dict[str, ProtocolEntry] = {}
_variants: dict[str, VariantEntry] = {}
_more_forms: dict[str, dict[str, str]] = {}  # by protocol: forms that other modules added, each with its module
_asked: Counter[str] = Counter()  # how often a program looked a variant up
_heeded: set[tuple[str, str]] = set()  # (protocol, variant) that `prepare` looked up: it may cache the answer
_loaded = False
_failed: dict[EntryPoint, str] = {}  # entry points that cannot be imported, each with its error
_found: set[str] = set()  # modules that a user need not name: entry points, and their imports

ProgramClass = TypeVar("ProgramClass", bound=type[Program[Any]])
VariantClass = TypeVar("VariantClass", bound=type[Any])


def register_protocol(name: str, *, forms: tuple[str, ...] = ("default",)) -> Callable[[ProgramClass], ProgramClass]:
    """Class decorator: registers a `Program` under a name. Raises ValueError if another class has the name. Raises
    TypeError for a class that cannot run, and for an invalid name or form.
    """
    if type(name) is not str:
        raise TypeError('register_protocol needs a name: write `@register_protocol("my_name")` above the class')
    if type(forms) is not tuple or not forms:
        raise TypeError(f"protocol {name}: forms are a tuple of names, the first the default, not {forms!r}")

    def register(program: ProgramClass) -> ProgramClass:
        refuse_no_program(program)
        _add(_protocols, name, ProtocolEntry(name, program, forms, _summary(program)), program)
        return program

    return register


def register_variant(
    name: str, *, protocol: str, form: str | None = None, expected: str | None, reason: str = "", twin: str = ""
) -> Callable[[VariantClass], VariantClass]:
    """Class decorator: registers a variant under a name. A variant without an expected finding (`expected=None`) needs
    a reason. `form`: by default, the protocol's default form. `twin`: the healthy variant that this one changes; by
    default it changes the form.

    Raises UnknownName if `form` is left out and the protocol is not registered yet.
    """
    if type(name) is not str:
        raise TypeError('register_variant needs a name: write `@register_variant("M-1", ...)` above the class')
    if expected is None and not reason:
        raise ValueError(f"variant {name}: expected=None needs a reason (a healthy form of yours? performance only?)")

    def register(make: VariantClass) -> VariantClass:
        if not isinstance(make, type):
            raise TypeError(f"variant {name}: a class is registered, not {make!r}")
        if issubclass(make, Program):
            refuse_no_program(make)
        of = (_protocols.get(protocol) or _find(_protocols, protocol, "protocol")).forms[0] if form is None else form
        _add(_variants, name, VariantEntry(name, protocol, of, make, expected, reason, _summary(make), twin), make)
        return make

    return register


def add_form(protocol: str, form: str, module: str) -> None:
    """Adds a form to a protocol that is registered now or later. `module`: the module that worker processes import to
    add it, too.
    """
    _more_forms.setdefault(protocol, {}).setdefault(form, module)


def modules_of_forms() -> list[str]:
    """Returns the modules that have added forms."""
    return list(dict.fromkeys(module for forms in _more_forms.values() for module in forms.values()))


def protocol(name: str) -> ProtocolEntry:
    """Returns the protocol with that name. Raises UnknownName with the nearest names."""
    return _with_more_forms(_find(_protocols, name, "protocol"))


def has_protocol(name: str) -> bool:
    """Returns whether a protocol has that name. The error of `protocol` names the nearest ones, which take time."""
    return _has(_protocols, name)


def variant(name: str) -> VariantEntry:
    """Returns the variant with that name. Raises UnknownName with the nearest names."""
    entry: VariantEntry = _find(_variants, name, "variant")
    _asked[name] += 1
    return entry


def protocols() -> list[ProtocolEntry]:
    load_all()
    return [_with_more_forms(_protocols[name]) for name in sorted(_protocols)]


def of_others() -> list[ProtocolEntry]:
    """Returns the protocols that dpsim does not ship."""
    _load(point for point in entry_points(group=ENTRY_POINTS) if not point.module.startswith("dpsim."))
    return [_with_more_forms(one) for one in _protocols.values() if not one.program.__module__.startswith("dpsim.")]


def variants(protocol: str | None = None) -> list[VariantEntry]:
    """Returns all variants, or those of one protocol, sorted by name: M-DP-2 before M-DP-10."""
    load_all()
    chosen = [entry for entry in _variants.values() if protocol in (None, entry.protocol)]
    _asked.update(entry.name for entry in chosen)
    return sorted(chosen, key=lambda entry: by_number(entry.name))


# ---- the program that runs


def prepared(name: str, args: Any) -> tuple[Program[Any], Any]:
    """Returns the program of a protocol, and what its `prepare` returned. If the variant derives from the program, the
    variant runs in its place.

    Raises UnknownName, and Unsuitable if `prepare` does. It also raises Unsuitable if `prepare` ignores the variant,
    because the healthy protocol would run under the variant's name.
    """
    healthy = protocol(name).program
    args = healthy.with_params(args)
    word = args.variant if isinstance(args, Arguments) else None
    if word is None:
        return _prepare(name, healthy(), args)
    made = variant(word).make
    if issubclass(made, healthy):
        return _prepare(name, made(), args)
    before = _asked[word]
    program, result = _prepare(name, healthy(), args)
    if _asked[word] > before:
        _heeded.add((name, word))
    elif (name, word) not in _heeded:
        raise Unsuitable(
            f"the protocol {name} takes no notice of its variant {word}; make {made.__qualname__} a class derived "
            f"from {healthy.__qualname__}, or look it up in {healthy.__qualname__}.prepare (registry.variant)"
        )
    return program, result


def _prepare(name: str, program: Program[Any], args: Any) -> tuple[Program[Any], Any]:
    """Calls `prepare`. Raises Unsuitable for settings that the program would ignore, of single ranks or of all."""
    if isinstance(args, Arguments):
        args.refuse_unheeded(name, program)
    return program, program.prepare(args)


def modules() -> list[str]:
    """Returns the modules that have registered something so far. A worker imports them, beside the entry points."""
    return sorted(_owners())


def known_without_import(module: str) -> bool:
    """Whether dpsim ships a module or finds it by entry points, so that a user need not name it."""
    if module.partition(".")[0] == "dpsim":
        return True
    load_all()
    return module in _found


def packages() -> set[str]:
    """Returns the packages of all registrations so far. In a traceback, their frames are code of the program."""
    return {module.partition(".")[0] for module in _owners()}


def load_all() -> bool:
    """Imports the modules of all entry points. Returns whether some were not yet imported."""
    global _loaded
    before, _loaded = _loaded, True
    if not before:
        _load(entry_points(group=ENTRY_POINTS))
    return not before


def _load(points: Iterable[EntryPoint]) -> None:
    """Imports the modules of these entry points. One that fails stops no other: `UnknownName` names the failure."""
    before = _owners()
    for point in points:
        _found.add(point.module)
        try:
            if point not in _failed:
                point.load()
        except Exception as error:
            of = f" of {point.dist.name}" if point.dist is not None else ""
            _failed[point] = f"the entry point {point.name} = {point.value}{of}: {type(error).__name__}: {error}"
    _found.update(_owners() - before)


def _add(table: dict[str, Any], name: str, entry: Any, owner: type[Any]) -> None:
    old = table.get(name)
    if old is not None and (_owner(old).__module__, _owner(old).__qualname__) != (owner.__module__, owner.__qualname__):
        raise ValueError(f"{name!r} is registered already, by {_owner(old).__module__}.{_owner(old).__qualname__}")
    table[name] = entry


def _owners() -> set[str]:
    entries: list[ProtocolEntry | VariantEntry] = [*_protocols.values(), *_variants.values()]
    return {*(_owner(entry).__module__ for entry in entries), *modules_of_forms()}


def _with_more_forms(entry: ProtocolEntry) -> ProtocolEntry:
    return replace(entry, forms=tuple(dict.fromkeys((*entry.forms, *_more_forms.get(entry.name, ())))))


def _owner(entry: ProtocolEntry | VariantEntry) -> type[Any]:
    return entry.program if isinstance(entry, ProtocolEntry) else entry.make


def _has(table: dict[str, Any], name: str) -> bool:
    if name not in table and not _loaded:
        _load(point for point in entry_points(group=ENTRY_POINTS) if point.name == name)
    return name in table or (load_all() and name in table)


def _find(table: dict[str, Any], name: str, what: Literal["protocol", "variant"]) -> Any:
    if _has(table, name):
        return table[name]
    hint = did_you_mean(name, table)
    others = f" and {len(_failed) - 1} others" if len(_failed) > 1 else ""
    failed = f"; could not be loaded: {next(iter(_failed.values()))}{others}" if _failed else ""
    failed += "" if table or _failed else f"; nothing has entry points of the group {ENTRY_POINTS}: is dpsim installed?"
    names = f": {', '.join(sorted(table))}" if len(table) <= 30 else f" {len(table)}; dpsim list names them"
    cure = "if a module of yours registers it, add --module FILE.py (in tests, import it in conftest.py)"
    raise UnknownName(f"no {what} is registered as {name!r}{hint or ';'} {cure}{failed}; there are{names}")


def _summary(owner: type[Any]) -> str:
    """Returns the first sentence of the docstring as one line, up to a full stop before a blank, or an empty line."""
    paragraph = " ".join((owner.__doc__ or "").strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) +(?=[A-Z`\"'(])", paragraph, maxsplit=1)[0]
