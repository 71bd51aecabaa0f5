"""Mutants of the parallel configuration, each without one validation rule."""

from __future__ import annotations

from typing import Any

from dpsim.vllm.config import ParallelConfig


def every_rule(form: type[ParallelConfig]) -> tuple[Any, ...]:
    """Returns all rules of a form, including the rules of single fields."""
    return (*form.rules, *form.of_one_field.values())


def without(form: type[ParallelConfig], rule: Any) -> Any:
    """Returns the form without one rule."""
    fewer = {
        "rules": tuple(one for one in form.rules if one is not rule),
        "of_one_field": {name: one for name, one in form.of_one_field.items() if one is not rule},
    }
    return type("Weaker", (form,), fewer)
