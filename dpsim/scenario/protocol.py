"""The section `protocol`: the program that a scenario runs, its form, and its variant.

    protocol: my_protocol
    protocol: {name: my_protocol, form: plain, variant: MINE-1}
    protocol: {name: my_protocol, params: {interval: 2}}

A form is a published version of the program, and a variant is a form with one known mistake. A scenario names a
protocol by its registered name and imports nothing (`dpsim.contract.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from dpsim.checks.finding import pattern_problem
from dpsim.contract import registry
from dpsim.contract.words import did_you_mean
from dpsim.scenario.base import Flag, Problem, StrictModel, Word, refuse


class ProtocolChoice(StrictModel):
    """Which protocol, in which form, with which variant. A bare string is short for the name."""

    name: Word
    """The registered name of the protocol."""
    form: Word | None = None
    """A published form of the protocol. If left out: the form of the variant, or the default of the protocol."""
    variant: Word | None = None
    """The registered name of a mutant or a historical bug. If left out: none."""
    pieces: dict[Word, Word] = Field(default_factory=dict, max_length=100)
    """Pieces of the form to replace, each with the name of another form of that piece."""
    allow_refused: Flag = False
    """Whether to run a mix of pieces and settings that the engine refuses, to see what fails."""
    params: Any = None
    """The parameters of a program that has a model of them (`Params`)."""

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
        if entry.program.Params is None and self.params is not None:
            self._refuse("params", f"{self.name} has no parameters here; remove it")
        return self

    def _check_pieces(self, known: Mapping[str, tuple[str, ...]]) -> None:
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
        wrong = None if variant.expected is None else pattern_problem(variant.expected)
        if wrong is not None:
            self._refuse("variant", f"{name} is registered with expected={variant.expected!r}: {wrong}")

    def _refuse(self, key: str, message: str) -> Self:
        refuse(Problem((key,), message))
        return self

    @property
    def resolved_form(self) -> str:
        """The form that runs."""
        if self.form is not None:
            return self.form
        return registry.variant(self.variant).form if self.variant else registry.protocol(self.name).forms[0]

    @property
    def caught_as(self) -> str | None:
        """The class with which the variant is registered, or None without a variant and for a harmless one."""
        return registry.variant(self.variant).expected if self.variant else None

    @property
    def arguments(self) -> dict[str, Any]:
        """The fields of `dpsim.contract.program.Arguments` that this section defines."""
        return {
            "form": self.resolved_form,
            "variant": self.variant,
            "pieces": self.pieces,
            "allow_refused": self.allow_refused,
            "params": self.plain_params,
        }

    @property
    def plain_params(self) -> Any:
        """The parameters as plain JSON data, with defaults, or None for a program without a model."""
        if self.params is None:
            return None
        return self.params.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)


def name_alone(value: Any) -> Any:
    """Expands a bare string into a mapping with the name."""
    return {"name": value} if isinstance(value, str) else value
