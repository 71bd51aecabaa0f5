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
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator

from dpsim.contract import registry
from dpsim.contract.program import Arguments, Program
from dpsim.contract.world import CommunicatorSpec
from dpsim.scenario.base import MAX_RANKS, KeyPath, Problem, refuse
from dpsim.scenario.errors import shown
from dpsim.scenario.model import Scenario
from dpsim.scenario.parameters import named
from dpsim.scenario.params.files import files_of, not_allowed, resolved
from dpsim.scenario.params.per_rank import differing, ranks_in
from dpsim.scenario.params.strict import refuse_unwritable, strict
from dpsim.scenario.protocol import ProtocolChoice, name_alone

PARAMS: KeyPath = ("protocol", "params")


def ranks_of(program: type[Program[Any]], params: Any) -> tuple[int, str]:
    """How many ranks a program says that it has; and what is wrong with that, or an empty text."""
    try:
        size = program.ranks(params)
    except (Exception, SystemExit) as error:  # of a user's own function
        found = f"raised {type(error).__name__}: {' '.join(str(error).split())}"
    else:
        if type(size) is int and 1 <= size <= MAX_RANKS:
            return size, ""
        found = f"gave {shown(size)}"
    return 0, f"{program.__qualname__}.ranks {found}; expected a number of ranks from 1 to {MAX_RANKS:,}"


class ParamsChoice(ProtocolChoice):
    """Which protocol, in which form, with what changed, and with which parameters."""

    @model_validator(mode="after")
    def _says_its_ranks(self) -> Self:
        _, problem = ranks_of(registry.protocol(self.name).program, self.params)
        refuse(*([Problem(("params",), problem)] if problem else []))
        return self


class ParamsScenario(Scenario):
    """A coordination protocol with its parameters, what goes wrong, and what must come out."""

    @property
    def size(self) -> int:
        """What the program says."""
        return registry.protocol(self.protocol.name).program.ranks(self.protocol.params)

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        """Those that the program makes itself; else one of all devices, and one of all hosts."""
        with suppress(Exception):  # whatever a program of a user's own has against it, a run says
            program, prepared = registry.prepared(self.protocol.name, self.arguments())
            own = program.groups(prepared)
            if own is not None:
                return named(own)
        ranks = tuple(range(self.size))
        return (
            CommunicatorSpec("world", "world", "device", ranks),
            CommunicatorSpec("world", "world_cpu", "host", ranks),
        )

    def ranks_named(self) -> Iterator[tuple[KeyPath, int]]:
        """Ranks for which a parameter has another value."""
        yield from ranks_in(self.protocol.params, PARAMS)

    def differing(self) -> dict[str, tuple[int, ...]]:
        """Values of parameters that single ranks have."""
        return differing(self.protocol.params)

    def one_more(self) -> Self | None:
        """What the program says; None too if it says parameters that the model refuses."""
        params = registry.protocol(self.protocol.name).program.one_more(self.protocol.params)
        if params is None:
            return None
        choice = {**dict(self.protocol), "params": params}
        try:
            return self.model_validate({**dict(self), "protocol": choice})
        except ValueError:
            return None

    def arguments(self, base: Path | None = None) -> Arguments:
        """Parameters as plain data: workers that know no class of the program's module get them."""
        given = self.protocol.arguments
        return Arguments(**{**given, "params": resolved(self.protocol.params, given["params"], base)})

    def in_folder(self, base: Path) -> Self:
        """The files that parameters name, as seen from anywhere."""
        if self.file is None:
            return self
        params = resolved(self.protocol.params, self.protocol.arguments["params"], base.resolve())
        return self.model_validate({**dict(self), "protocol": {**dict(self.protocol), "params": params}})

    @property
    def file(self) -> str | None:
        """The first file that a parameter names."""
        return next(iter(files_of(self.protocol.params)), None)

    def beyond(self) -> str:
        """As of any parameters, and for files that the user of this process did not name."""
        others = not_allowed(self.protocol.params)
        return (
            f"it names the file {others[0]}; expected one that this command names (--file)"
            if others
            else super().beyond()
        )


@functools.cache
def scenario_of(model: type[BaseModel]) -> type[ParamsScenario]:
    """The class of scenarios whose protocol has such parameters. Raises ValueError for a model whose values a file
    cannot keep, and what pydantic raises for a wrong model.
    """
    refuse_unwritable(model)
    of = model.__qualname__.rpartition("<locals>.")[2].replace(".", "")
    params: Any = Field(default_factory=dict, validate_default=True, description="The parameters of the protocol.")
    choice: Any = create_model(
        f"{of}Choice", __base__=ParamsChoice, __doc__=ParamsChoice.__doc__, params=(strict(model), params)
    )
    protocol: Any = (Annotated[choice, BeforeValidator(name_alone)], ...)
    return create_model(f"{of}Scenario", __base__=ParamsScenario, __doc__=ParamsScenario.__doc__, protocol=protocol)
