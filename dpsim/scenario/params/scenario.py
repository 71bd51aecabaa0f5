"""The scenario of a program that has `Params`: its ranks and communicators come from the parameters.

    name: two
    protocol: {name: waves, params: {interval: 2}}

Such a scenario has no sections besides those of every scenario. `scenario_of` joins the class with a model, so pydantic
checks each parameter in its place, and the JSON Schema has it. Without groups of the program's own the world has two
communicators of all ranks, both of kind `world`: `world` on devices, and `world_cpu` on hosts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator

from dpsim.contract import registry
from dpsim.contract.program import Arguments
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario.base import MAX_RANKS, KeyPath, Problem, refuse
from dpsim.scenario.errors import shown
from dpsim.scenario.model import Scenario
from dpsim.scenario.params.per_rank import PerRank
from dpsim.scenario.params.strict import strict
from dpsim.scenario.protocol import ProtocolChoice, name_alone

PARAMS: KeyPath = ("protocol", "params")


class ParamsChoice(ProtocolChoice):
    """Which protocol, in which form, with what changed, and with which parameters."""

    @model_validator(mode="after")
    def _says_its_ranks(self) -> Self:
        of = registry.protocol(self.name).program
        try:
            size = of.ranks(self.params)
        except Exception as error:  # of a user's own function
            found = f"raised {type(error).__name__}: {error}"
        else:
            if type(size) is int and 1 <= size <= MAX_RANKS:
                return self
            found = f"gave {shown(size)}"
        message = f"{of.__qualname__}.ranks {found}; expected a number of ranks from 1 to {MAX_RANKS:,}"
        refuse(Problem(("params",), message))
        return self


class ParamsScenario(Scenario):
    """A coordination protocol with its parameters, what goes wrong, and what must come out."""

    @property
    def size(self) -> int:
        """What the program says."""
        return registry.protocol(self.protocol.name).program.ranks(self.protocol.params)

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        """One of all devices, and one of all hosts."""
        ranks = tuple(range(self.size))
        return (
            CommunicatorSpec("world", "world", "device", ranks),
            CommunicatorSpec("world", "world_cpu", "host", ranks),
        )

    def ranks_named(self) -> Iterator[tuple[KeyPath, int]]:
        """Ranks for which a parameter has another value."""
        yield from _ranks_in(self.protocol.params, PARAMS)

    def arguments(self, base: Path | None = None) -> Arguments:
        """Parameters as plain data: workers that know no class of the program's module get them."""
        return Arguments(**self.protocol.arguments)


@functools.cache
def scenario_of(model: type[BaseModel]) -> type[ParamsScenario]:
    """The class of scenarios whose protocol has such parameters. Raises what pydantic raises for a wrong model."""
    of = model.__qualname__.rpartition("<locals>.")[2].replace(".", "")
    params: Any = Field(default_factory=dict, validate_default=True, description="The parameters of the protocol.")
    choice: Any = create_model(
        f"{of}Choice", __base__=ParamsChoice, __doc__=ParamsChoice.__doc__, params=(strict(model), params)
    )
    protocol: Any = (Annotated[choice, BeforeValidator(name_alone)], ...)
    return create_model(f"{of}Scenario", __base__=ParamsScenario, __doc__=ParamsScenario.__doc__, protocol=protocol)


def _ranks_in(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    if isinstance(value, PerRank):
        yield from (((*path, str(rank)), rank) for rank in value.ranks)
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from _ranks_in(getattr(value, name), (*path, field.alias or name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _ranks_in(inner, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _ranks_in(inner, (*path, number))
