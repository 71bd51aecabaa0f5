"""Forms of the parallel configuration with one rule less."""

from __future__ import annotations

from typing import Any

from dpsim.vllm.config import ParallelConfig


def every_rule(form: type[ParallelConfig]) -> tuple[Any, ...]:
    """The rules of a form, those of one field among them."""
    return (*form.rules, *form.of_one_field.values())


def without(form: type[ParallelConfig], rule: Any) -> Any:
    """The form with one rule less: a mutant."""
    fewer = {
        "rules": tuple(one for one in form.rules if one is not rule),
        "of_one_field": {name: one for name, one in form.of_one_field.items() if one is not rule},
    }
    return type("Weaker", (form,), fewer)
