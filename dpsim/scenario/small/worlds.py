"""Enumerates every world with parameters up to given sizes, because a random search may miss a small one that fails.

    all_up_to(scenario, "interval=3,slots=2").worlds()

Each line shows a field of a model, its size in `--all-up-to`, and the values that the worlds then have:

    interval: int = Field(4, ge=1)          interval=3               1, 2, 3
    eager: bool = False                     eager                    false, true
    mode: Literal["a", "b"] = "a"           mode                     a, b
    slots: list[int]                        slots=2,slots.item=1     [], [0], [1], [0, 0], [0, 1], [1, 0], [1, 1]
    work: list[Request]                     work=2,work.tokens=3     up to two requests of up to three tokens
    sees: PerRank[int]                      sees=1                   each rank has 0 or 1

A whole number starts at its lower bound, or at 0 without one. A parameter without a size keeps the value of the
scenario. A field of a list's item has its default or, without one, every value that the model allows. If the model
refuses a combination of values, there is no such world. Worlds with small values come first, so the first world that
fails is one of the smallest.

Prior art: Jackson's small scope hypothesis (Alloy); TLC.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, NamedTuple

from pydantic import ValidationError

from dpsim.contract import registry
from dpsim.contract.words import did_you_mean
from dpsim.scenario.edit import scenario_from
from dpsim.scenario.errors import ScenarioError
from dpsim.scenario.model import Scenario
from dpsim.scenario.parameters import MOST_RANKS, Worlds
from dpsim.scenario.params.per_rank import OTHERS, PerRank, within
from dpsim.scenario.params.scenario import ranks_of
from dpsim.scenario.params.shapes import Each, Either, Fields, Many, Shape, fields
from dpsim.scenario.small.values import OPTION, Limits, refuse_many, values
from dpsim.scenario.small.within import injected_within

MOST = 1_000
"""The largest size of a parameter."""


def all_up_to(base: Scenario, sizes: str) -> Worlds:
    """Returns every world like `base` with parameters up to `sizes`. Raises ScenarioError for invalid sizes."""
    return base.all_up_to(sizes) if base.protocol.params is None else SmallParams.of(base, sizes)


@dataclass(frozen=True)
class Extent:
    """The sizes of the parameters, by their names. None means all values of a choice."""

    limits: Limits
    kept: tuple[str, ...] = ()
    """The parameters that keep the value of the scenario."""

    def summary(self) -> str:
        """Returns the sizes in words."""
        sizes = [f"{name} (all)" if most is None else f"{name} {most}" for name, most in self.limits.items()]
        return ", ".join(sizes) + (f"; {', '.join(self.kept)} as in the scenario" if self.kept else "")

    def _asdict(self) -> dict[str, Any]:
        return dict(self.limits)


class SmallParams(NamedTuple):
    """The worlds like one scenario with `Params`, smaller ones first."""

    base: Scenario
    sizes: Extent
    params: Sequence[Any]
    """The plain parameters of each world."""

    @property
    def total(self) -> int:
        """The number of worlds."""
        return len(self.params)

    @property
    def not_varied(self) -> tuple[str, ...]:
        """Nothing, because `Extent.summary` names the parameters that keep their values."""
        return ()

    @property
    def outside(self) -> str:
        """A text if no world has the parameters of the scenario, else ""."""
        shapes = fields(type(self.base.protocol.params))
        names, size = [name for name, shape in shapes.items() if isinstance(shape, Each)], self.base.size
        given = _of_each_rank(self.base.protocol.plain_params, names, size)
        alike = any(_of_each_rank(one, names, size) == given for one in self.params)
        return "" if alike else "the scenario's own parameters"

    def worlds(self) -> Iterator[Scenario]:
        """Yields the scenario of each world."""
        base = self.base
        program = registry.protocol(base.protocol.name).program
        for plain in self.params:
            params = read(base, plain)
            size = program.ranks(params)
            yield scenario_from(
                {
                    **dict(base),
                    **injected_within(base, size),
                    "name": f"{base.name[:94]}-small",
                    "protocol": {**dict(base.protocol), "params": within(params, plain, size)},
                    "expect": base.expect.of_small_worlds(),
                }
            )

    @staticmethod
    def of(base: Scenario, text: str) -> SmallParams:
        """The worlds up to "interval=3,slots=2". ScenarioError: invalid sizes, or more than 100,000 worlds."""
        shapes = fields(type(base.protocol.params))
        limits = _limits(text, shapes)
        varied = {name.partition(".")[0] for name in limits}
        sizes = Extent(limits, tuple(name for name in shapes if name not in varied))
        return SmallParams(base, sizes, _whole(base, shapes, sizes.limits))


def _limits(text: str, shapes: Mapping[str, Shape]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    known = [name for key, shape in shapes.items() for name in _names(key, shape)]
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if name not in known:
            hint = did_you_mean(name, known)
            raise ScenarioError(f"{OPTION}: {name!r} is no parameter{hint} (there are {', '.join(known) or 'none'})")
        if name in found:
            raise ScenarioError(f"{OPTION}: {name} is given twice; leave one of them out")
        if equals and not (value.removeprefix("-").isdecimal() and -MOST <= int(value) <= MOST):
            raise ScenarioError(f"{OPTION}: {name}: expected a number up to {MOST:,}, as in {name}=2, got {value!r}")
        found[name] = int(value) if equals else None
    return found


def _names(name: str, shape: Shape) -> Iterator[str]:
    yield name
    if isinstance(shape, Fields):
        for key, inner in shape.fields.items():
            yield from _names(f"{name}.{key}", inner)
    elif isinstance(shape, Each) or (isinstance(shape, Many) and isinstance(shape.item, Fields)):
        yield from list(_names(name, shape.item))[1:]
    elif isinstance(shape, Either):
        yield from dict.fromkeys(inner for one in shape.options for inner in list(_names(name, one))[1:])
    elif isinstance(shape, Many):
        yield from _names(f"{name}.item", shape.item)


def _whole(base: Scenario, shapes: Mapping[str, Shape], limits: Limits) -> list[Any]:
    """Sorted by the distance of the values from the smallest ones."""
    given = base.protocol.plain_params
    every = {name: list(enumerate(values(shape, name, limits, given[name]))) for name, shape in shapes.items()}
    spread = {name: every.pop(name) for name, shape in shapes.items() if isinstance(shape, Each) and name in limits}
    refuse_many(prod(map(len, every.values())))
    sized: list[tuple[Mapping[str, Any], int, int]] = []
    for chosen in product(*every.values()):
        plain = {**given, **{name: value for name, (_, value) in zip(every, chosen, strict=True)}}
        sized += [(plain, size, sum(at for at, _ in chosen)) for size in _sizes(base, plain, spread)]
    refuse_many(sum(prod(len(one) ** size for one in spread.values()) for _, size, _ in sized))
    found = [
        (so_far, one)
        for plain, size, far in sized
        for so_far, one in _of_ranks(plain, size, far, spread)
        if not spread or _ranks(base, one) == size
    ]
    if not found:
        model = type(base.protocol.params).__qualname__
        raise ScenarioError(f"{OPTION}: {model} refuses every one of these worlds; take other sizes")
    return [plain for _, plain in sorted(found, key=lambda one: one[0])]


def _of_ranks(
    plain: Mapping[str, Any], size: int, far: int, spread: Mapping[str, list[tuple[int, Any]]]
) -> Iterator[tuple[int, Any]]:
    """`far`: the distance of the other parameters from their smallest."""
    for chosen in product(*(product(one, repeat=size) for one in spread.values())):
        own = {name: PerRank.of(one for _, one in ranks).plain() for name, ranks in zip(spread, chosen, strict=True)}
        yield far + sum(at for ranks in chosen for at, _ in ranks), {**plain, **own}


def _sizes(base: Scenario, plain: Mapping[str, Any], spread: Mapping[str, list[tuple[int, Any]]]) -> list[int]:
    """There are several if values of single ranks define the number of ranks."""
    if not spread:
        size = _ranks(base, plain)
        return [] if size is None else [size]
    uniform = product(*([value for _, value in one] for one in spread.values()))
    known = {_ranks(base, {**plain, **dict(zip(spread, each, strict=True))}) for each in uniform}
    known |= {_ranks(base, plain)}
    return sorted(size for size in known if size is not None) or list(range(1, MOST_RANKS + 1))


def _ranks(base: Scenario, plain: Mapping[str, Any]) -> int | None:
    params = read(base, plain)
    return None if params is None else ranks_of(registry.protocol(base.protocol.name).program, params)[0] or None


def _of_each_rank(plain: Mapping[str, Any], names: Sequence[str], size: int) -> dict[str, Any]:
    found = dict(plain)
    for name in names:
        value = plain[name] if isinstance(plain[name], Mapping) else {OTHERS: plain[name]}
        ranks = {str(rank): one for rank, one in value.items()}
        found[name] = [ranks.get(str(rank), ranks.get(OTHERS)) for rank in range(size)]
    return found


def read(base: Scenario, plain: Any) -> Any:
    """Returns the model of the parameters, or None if the model refuses them."""
    try:
        return type(base.protocol.params).model_validate_json(json.dumps(plain))
    except ValidationError:
        return None
