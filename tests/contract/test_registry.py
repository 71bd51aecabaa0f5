"""Tests the registry of protocols and variants.

If an entry point cannot be imported, all other names work, and the error for a missing name reports the import error. A
mistake in a registration is refused at once. For a variant, each backend runs the right program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

import pytest

from dpsim.contract import pieces, registry
from dpsim.contract.program import Arguments, Program, Unsuitable
from dpsim.contract.world import World
from dpsim.sim.backend import SimBackend
from real.jobs import resolve
from real.messages import Job


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds an entry point of another package, whose module does not exist. It comes before those of dpsim."""
    found = entry_points(group=registry.ENTRY_POINTS)
    theirs = EntryPoint("theirs", "no_such_module", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [theirs, *found])
    monkeypatch.setattr(registry, "_loaded", False)
    monkeypatch.setattr(registry, "_failed", {})


@pytest.mark.usefixtures("broken")
def test_a_broken_entry_point_hides_no_other_protocol() -> None:
    assert registry.protocol("conformance").name == "conformance"


@pytest.mark.usefixtures("broken")
def test_a_missing_name_reports_the_import_error() -> None:
    said = r"'mine'.*could not be loaded: the entry point theirs = no_such_module: ModuleNot"
    with pytest.raises(registry.UnknownName, match=said):
        registry.protocol("mine")


def test_a_missing_installation_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", True)
    monkeypatch.setattr(registry, "_protocols", {})
    monkeypatch.setattr(registry, "_failed", {})
    with pytest.raises(registry.UnknownName, match="is dpsim installed"):
        registry.protocol("conformance")


class Something:
    """A class that is no program. The tests register it as a variant that replaces a part of a program."""


def variant(name: Any) -> Callable[[Any], Any]:
    return registry.register_variant(name, protocol="conformance", expected="CRASH")


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: registry.register_protocol(Something), "register_protocol needs a name: write `@register_protocol"),  # type: ignore[arg-type]
    (lambda: registry.register_protocol("p", forms="plain"), "protocol p: forms are a tuple .*, not 'plain'"),  # type: ignore[arg-type]
    (lambda: registry.register_protocol("p", forms=()), r"protocol p: forms are a tuple .*, not \(\)"),
    (lambda: registry.register_protocol("p")(Something), "Something is no class derived from Program"),  # type: ignore[type-var]
    (lambda: variant("M-1")(Something()), "variant M-1: a class is registered, not <"),
    (lambda: variant(Something), "register_variant needs a name"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_a_wrong_registration_is_refused(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        wrong()


# ---- which program runs for a variant


class Own(Program):
    """A program that never looks its variant up. So only a variant that derives from it can run."""

    async def run(self, rank: Any, prepared: Any) -> None: ...


class Asks(Own):
    """A program that looks its variant up at the first `prepare`, and then keeps the answer."""

    known: ClassVar[dict[str, type[Any]]] = {}

    def prepare(self, args: Arguments) -> Any:
        if args.variant is not None and args.variant not in self.known:
            self.known[args.variant] = registry.variant(args.variant).make
        return self.known.get(args.variant or "")


class Piece:
    pass


class Pieces(Own):
    """A program with one part, `Piece`, that a variant can replace."""

    def prepare(self, args: Arguments) -> Any:
        return pieces.with_variant(self, args, {Piece: Piece})[Piece]


def given(variant: str | None) -> Arguments:
    return Arguments(form="default", variant=variant)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Any], type[Any]], tuple[Any, Any]]:
    """Returns a function that registers a protocol and a variant of it for one test, and prepares the variant."""
    registry.protocols()
    for table in ("_protocols", "_variants"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    monkeypatch.setattr(registry, "_heeded", set())
    monkeypatch.setattr(Asks, "known", {})

    def prepare(program: type[Any], made: type[Any]) -> tuple[Any, Any]:
        registry.register_protocol("own")(program)
        registry.register_variant("OWN-1", protocol="own", expected="HANG")(made)
        assert type(registry.prepared("own", given(None))[0]) is program
        return registry.prepared("own", given("OWN-1"))

    return prepare


Prepare = Callable[[type[Any], type[Any]], tuple[Any, Any]]


def derived(*bases: type[Any]) -> type[Any]:
    return type("Derived", bases, {})


@pytest.mark.parametrize("program", [Own, Asks, Pieces])
def test_a_variant_of_the_program_runs_in_its_place(own: Prepare, program: type[Any]) -> None:
    made = derived(program)
    assert type(own(program, made)[0]) is made


def test_every_backend_runs_it(own: Prepare) -> None:
    """A variant that derives from the program runs in its place, in the simulation as well as in a worker of gloo or
    NCCL.
    """
    made = derived(Own)
    seen: list[type[Any]] = []

    async def run(self: Any, rank: Any, prepared: Any) -> None:
        seen.append(type(self))

    made.run = run
    own(Own, made)
    backend = SimBackend()
    backend.run(World(size=1, communicators=()), "own", given(None))
    backend.run(World(size=1, communicators=()), "own", given("OWN-1"))
    assert seen == [made]
    job = Job(0, 0, World(size=1, communicators=()), "own", given("OWN-1"), [], sys.path, "", "")
    assert type(resolve(job)[0]) is made


@pytest.mark.parametrize(("program", "made"), [(Asks, Something), (Pieces, derived(Piece))])
def test_a_variant_that_is_looked_up_is_a_piece(own: Prepare, program: type[Any], made: type[Any]) -> None:
    for _ in range(2):  # the program may cache the answer
        instance, prepared = own(program, made)
        assert (type(instance), prepared) == (program, made)


@pytest.mark.parametrize("made", [Something, derived(Program, Piece)])
def test_a_variant_that_no_program_looks_up_is_refused(own: Prepare, made: type[Any]) -> None:
    """The program does not look the variant up, and the variant does not derive from it. So the healthy protocol would
    run under the variant's name.
    """
    if issubclass(made, Program):
        made = type("Other", (made,), {"run": Own.run})
    with pytest.raises(Unsuitable, match=r"own takes no notice of its variant OWN-1; make .* from Own, or "):
        own(Own, made)


def test_a_variant_that_replaces_nothing_is_refused(own: Prepare) -> None:
    with pytest.raises(Unsuitable, match=r"OWN-1 is Something, .*; expected a class .* one of Piece, Pieces"):
        own(Pieces, Something)


def test_a_form_that_is_left_out_is_the_default(own: Prepare) -> None:
    own(Asks, Something)
    assert registry.variant("OWN-1").form == "default"
    with pytest.raises(registry.UnknownName, match="no protocol is registered as 'owm'; did you mean 'own'"):
        registry.register_variant("OWN-2", protocol="owm", expected="HANG")(Something)


def test_a_variant_that_cannot_be_run_is_refused(own: Prepare) -> None:
    with pytest.raises(TypeError, match="has no run"):
        own(Asks, derived(Program))


# ---- the summary of a program or a variant


def first_line(owner: type[Any]) -> str:
    """Faulty twin: the first line of the docstring, even if its sentence continues on the next line."""
    return (owner.__doc__ or "").strip().partition("\n")[0]


DOCSTRINGS = {
    "One sentence.": "One sentence.",
    "The first sentence has\n    two lines. The second one is left out.": "The first sentence has two lines.",
    "No full stop\n\n    Details of 4.2.": "No full stop",
    "Release 0.33 differs, e.g. in\n    its waves.": "Release 0.33 differs, e.g. in its waves.",
    "": "",
}


def summaries(summary: Callable[[type[Any]], str]) -> list[str]:
    return [summary(type("Documented", (), {"__doc__": text})) for text in DOCSTRINGS]


def test_a_summary_is_the_first_sentence_of_a_docstring() -> None:
    assert summaries(registry._summary) == [*DOCSTRINGS.values()]
    assert summaries(first_line) != [*DOCSTRINGS.values()]
