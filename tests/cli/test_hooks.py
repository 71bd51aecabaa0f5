"""Tests the hooks of a program in `dpsim show`: the classes that `prepare` obtains with `with_variant`, and their
methods.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from dpsim.cli.hooks import hooks, of_name
from dpsim.contract.interface import Rank
from dpsim.contract.pieces import with_variant
from dpsim.contract.program import Arguments, Program
from dpsim.contract.registry import register_protocol, register_variant
from dpsim.contract.words import BadInput
from tests.cli.commands import dpsim_


class Source:
    """Where numbers come from. A second sentence."""

    def number_of_t(self, rank: int, step: int = 0) -> int:
        """The number of a rank. It is small."""
        return rank

    async def _own(self) -> None:
        """No hook: its name begins with an underscore."""


class Doubled(Source):
    def number_of_t(self, rank: int, step: int = 0) -> int:
        return 2 * rank


class NoParams(BaseModel):
    ranks: int = 2


@register_protocol("t_hooked")
class Hooked(Program[Source]):
    Params = NoParams

    @staticmethod
    def ranks(params: NoParams) -> int:
        return params.ranks

    def prepare(self, args: Arguments[Any]) -> Source:
        made: Source = with_variant(self, args, {Source: Doubled})[Source]()
        return made

    async def run(self, rank: Rank, prepared: Source) -> None:
        rank.decide("number", prepared.number_of_t(rank.rank), "own", local=True)


class ReadOtherwise(BaseModel):
    k: int = Field(default=1, validation_alias="kay")


@register_protocol("t_unusable")
class Unusable(Hooked):
    """Its parameters have an alias, so dpsim reads and writes different names, and refuses the class."""

    Params = ReadOtherwise  # type: ignore[assignment]  # that is the mistake


@register_variant("T-HOOKED", protocol="t_hooked", expected=None, reason="the same numbers")
class Mine(Doubled):
    """The same."""


def test_a_piece_is_named_with_its_methods() -> None:
    [hook] = hooks("t_hooked")
    assert (hook["name"], hook["classes"]) == ("Source", [f"{__name__}.Doubled"])
    assert hook["rule"] == "Where numbers come from."
    [method] = hook["methods"]
    assert method["signature"] == "number_of_t(self, rank: int, step: int = 0) -> int"
    assert method["rule"] == "The number of a rank."


@pytest.mark.parametrize("name", ["number_of_t", "Doubled.number_of_t"])
def test_a_method_is_shown_with_a_variant_to_copy(name: str) -> None:
    assert [hook["protocols"] for hook in of_name(name)] == [["t_hooked"]]
    shown = dpsim_("show", name).out
    assert shown.startswith("hook of  t_hooked\n")
    assert f"from {__name__} import Doubled\n" in shown
    assert "    def number_of_t(self, rank, step):\n        return super().number_of_t(rank, step)\n" in shown


def test_a_protocol_that_cannot_be_used_hides_no_hook_of_others() -> None:
    with pytest.raises(BadInput, match="the protocol t_unusable: its Params cannot be used"):
        hooks("t_unusable")
    assert [hook["protocols"] for hook in of_name("number_of_t")] == [["t_hooked"]]


@pytest.mark.parametrize("name", ["_own", "Other.number_of_t", "number_of_u"])
def test_other_names_are_no_hooks(name: str) -> None:
    assert of_name(name) == []


def test_a_protocol_is_shown_with_its_hooks() -> None:
    shown = dpsim_("show", "t_hooked").out
    assert f"from one of these classes, and overrides methods:\n\n{__name__}.Doubled\n" in shown
