"""The class of scenarios for a program with `Params`: the parameters define its ranks and communicators.

    name: two
    protocol: {name: waves, params: {interval: 2}}

`scenario_of` creates its class, with the user's model as the type of `params`.

If the program defines no groups, the world has two communicators of all ranks: `world` on devices and `world_cpu` on
hosts, both of kind `world`.
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
    """Returns the number of ranks that the program defines, and a message on what is wrong with it, or ""."""
    try:
        size = program.ranks(params)
    except (Exception, SystemExit) as error:  # an error in the user's own function
        found = f"raised {type(error).__name__}: {' '.join(str(error).split())}"
    else:
        if type(size) is int and 1 <= size <= MAX_RANKS:
            return size, ""
        found = f"gave {shown(size)}"
    return 0, f"{program.__qualname__}.ranks {found}; expected a number of ranks from 1 to {MAX_RANKS:,}"


class ParamsChoice(ProtocolChoice):
    """Which protocol, in which form, with which variant, and with which parameters."""

    @model_validator(mode="after")
    def _says_its_ranks(self) -> Self:
        _, problem = ranks_of(registry.protocol(self.name).program, self.params)
        refuse(*([Problem(("params",), problem)] if problem else []))
        return self


class ParamsScenario(Scenario):
    """A coordination protocol with its parameters, the planted faults, and the expected outcome."""

    @property
    def size(self) -> int:
        """The number of ranks that the program defines."""
        return registry.protocol(self.protocol.name).program.ranks(self.protocol.params)

    @property
    def communicators(self) -> tuple[CommunicatorSpec, ...]:
        """The communicators that the program defines, or one of all devices and one of all hosts."""
        with suppress(Exception):  # the run reports an error of the user's program
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
        """Yields the ranks for which a parameter has another value."""
        yield from ranks_in(self.protocol.params, PARAMS)

    def differing(self) -> dict[str, tuple[int, ...]]:
        """Returns the values of parameters that only some ranks have."""
        return differing(self.protocol.params)

    def one_more(self) -> Self | None:
        """As the program defines it; None without, or if the model refuses the parameters."""
        params = registry.protocol(self.protocol.name).program.one_more(self.protocol.params)
        if params is None:
            return None
        choice = {**dict(self.protocol), "params": params}
        try:
            return self.model_validate({**dict(self), "protocol": choice})
        except ValueError:
            return None

    def arguments(self, base: Path | None = None) -> Arguments:
        """With plain parameters, because worker processes may lack the classes of the user's module."""
        given = self.protocol.arguments
        return Arguments(**{**given, "params": resolved(self.protocol.params, given["params"], base)})

    def in_folder(self, base: Path) -> Self:
        """Returns the same scenario with absolute paths of files."""
        if self.file is None:
            return self
        params = resolved(self.protocol.params, self.protocol.arguments["params"], base.resolve())
        return self.model_validate({**dict(self), "protocol": {**dict(self.protocol), "params": params}})

    @property
    def file(self) -> str | None:
        """The first file that a parameter names, or None."""
        return next(iter(files_of(self.protocol.params)), None)

    def beyond(self) -> str:
        """Why a replay token may not contain this: also a file that the user of this process did not name."""
        others = not_allowed(self.protocol.params)
        return (
            f"it names the file {others[0]}; expected one that this command names (--file)"
            if others
            else super().beyond()
        )


@functools.cache
def scenario_of(model: type[BaseModel]) -> type[ParamsScenario]:
    """The class for this model. ValueError: a file cannot store its values; pydantic's errors: it is invalid."""
    refuse_unwritable(model)
    of = model.__qualname__.rpartition("<locals>.")[2].replace(".", "")
    params: Any = Field(default_factory=dict, validate_default=True, description="The parameters of the protocol.")
    choice: Any = create_model(
        f"{of}Choice", __base__=ParamsChoice, __doc__=ParamsChoice.__doc__, params=(strict(model), params)
    )
    protocol: Any = (Annotated[choice, BeforeValidator(name_alone)], ...)
    return create_model(f"{of}Scenario", __base__=ParamsScenario, __doc__=ParamsScenario.__doc__, protocol=protocol)
