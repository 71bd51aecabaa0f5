"""Forms of the parallel configuration with one rule less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.vllm.config import ParallelConfig


def every_rule(form: type[ParallelConfig]) -> tuple[Any, ...]:
    """The rules of a form, those of one field among them."""
    return (*form.rules, *_of_one_field(form).values())


def without(form: type[ParallelConfig], rule: Any) -> Any:
    """The form with one rule less: a mutant."""
    fewer: dict[str, Any] = {"rules": tuple(one for one in form.rules if one is not rule)}
    of_one_field = {name: one for name, one in _of_one_field(form).items() if one is not rule}
    if of_one_field:
        fewer["of_one_field"] = of_one_field
    return type("Weaker", (form,), fewer)


def _of_one_field(form: type[ParallelConfig]) -> Mapping[str, Any]:
    return getattr(form, "of_one_field", {})
