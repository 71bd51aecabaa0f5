"""Checks the parts of a user's program when Python defines its class: its parameters, and its methods.

A mistake in them is bad input, so the error names the class and says what to write. `Program` itself calls the checks,
so they receive it as `base`.
"""

from __future__ import annotations

from inspect import getattr_static, iscoroutinefunction, signature
from typing import Any

from dpsim.contract.words import short

RANKS = "def ranks(params)"
METHODS = (
    "prepare",
    "services",
    "groups",
    "nodes",
    "steps",
    "figures",
    "estimate",
    "reachable",
    "assumes",
    "elsewhere",
)
"""Methods for which a user may write a plain value by mistake. dpsim calls them outside of a run."""


def check_methods(program: type[Any], base: type[Any]) -> None:
    """Raises TypeError for a value in place of a method, such as `services = ("router",)`."""
    for name in METHODS:
        value: Any = getattr(program, name)
        if not callable(value):
            write = f"def {name}{_written(getattr(base, name))}"
            raise TypeError(
                f"{program.__qualname__}.{name} is {short(repr(value), 60)}, and no method; write `{write}`"
            )


def _written(method: Any) -> str:
    """Returns the parameters of a method as a user writes them, without types.

    >>> _written(str.join)
    '(self, iterable)'
    """
    return f"({', '.join(signature(method).parameters)})"


def check_params(program: type[Any], base: type[Any]) -> None:
    """Raises TypeError for parameters that no scenario can give, and for a program that does not define its ranks."""
    name, write = program.__qualname__, f"write `@staticmethod` and `{RANKS}`"
    ranks: Any = getattr_static(program, "ranks")
    model: Any = program.Params
    says = ranks is not getattr_static(base, "ranks")
    if model is None:
        if says and isinstance(ranks, staticmethod):
            raise TypeError(f"{name} has `ranks` and no `Params`; write `Params = ` and a pydantic model of parameters")
        return
    if not (isinstance(model, type) and hasattr(model, "model_fields") and model.__name__ != "BaseModel"):
        raise TypeError(f"{name}.Params is {model!r}; expected a class derived from pydantic.BaseModel")
    if not says:
        raise TypeError(f"{name} has `Params` and does not say its ranks; {write}")
    if not isinstance(ranks, staticmethod):
        raise TypeError(f"{name}.ranks is no static method; {write}")
    if iscoroutinefunction(program.ranks):
        raise TypeError(f"{name}.ranks is a coroutine function; {write}")
    try:
        signature(program.ranks).bind(None)
    except TypeError as error:
        raise TypeError(f"{name}.ranks cannot be called ({error}); {write}") from None
