"""Tests that the schema describes each field by the docstring below the field."""

from pydantic import BaseModel

from dpsim.scenario.base import StrictModel
from dpsim.scenario.descriptions import described


class Sizes(StrictModel):
    ranks: int = 2
    """How many,
    in all.
    """
    silent: int = 0
    spoken: int = 0
    """Of the base class."""


class Larger(Sizes):
    """This docstring describes the class, and so no field."""

    spoken: int = 1
    more: int = 1
    """Of the derived class."""


def test_a_field_has_the_docstring_below_it() -> None:
    assert described(Sizes) == {"ranks": "How many,\nin all.", "spoken": "Of the base class."}


def test_a_field_that_is_declared_again_is_described_there() -> None:
    assert described(Larger) == {"ranks": "How many,\nin all.", "more": "Of the derived class."}


def test_a_class_within_a_function() -> None:
    class Local(StrictModel):
        one: int = 1
        """The one."""

    assert described(Local) == {"one": "The one."}
    assert Local.model_json_schema()["properties"]["one"]["description"] == "The one."


def test_a_class_without_source_has_no_descriptions() -> None:
    spaces = {"__name__": "nowhere", "StrictModel": StrictModel}
    exec("class Typed(StrictModel):\n    one: int = 1\n    'The one.'\n", spaces)
    made: type[BaseModel] = spaces["Typed"]  # type: ignore[assignment]
    assert described(made) == {}
