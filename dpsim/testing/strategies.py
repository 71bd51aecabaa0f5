"""Hypothesis strategies for scenarios of any protocol: a test states a property, and Hypothesis searches for a
violation.

    @given(scenarios(protocol="waves", max_faults=0))
    def test_a_healthy_protocol_never_hangs(scenario):
        holds(scenario)              # dpsim.testing: explores schedules, and raises if one fails

    scenarios(protocol="waves", params={"steps": st.just(2)})

For a program with `Params`, the strategy draws the parameters from its model (`dpsim.testing.models`). It plants faults
and delays at ops that a healthy run of the same world makes, so it first makes that run on the simulation. A package
with other parameters provides its own strategy `scenarios` by an entry point in the group `dpsim.strategies`.

Hypothesis draws neither schedules nor seeds, because `holds` explores the schedules. So a failure depends only on the
scenario, and Hypothesis can shrink it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import assume, currently_in_test_context, note
from hypothesis import strategies as st
from pydantic import BaseModel

from dpsim.contract import registry
from dpsim.contract.program import Program
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.duration import format_duration
from dpsim.scenario.params.files import allow_files_of, required_files
from dpsim.scenario.params.per_rank import within
from dpsim.scenario.params.shapes import Number, fields
from dpsim.testing.models import params as params_of

if TYPE_CHECKING:
    from dpsim.scenario.swarm import Place

KINDS = ("skip", "repeat", "die")

MOST_OPS = 2_000
"""The most ops of a rank in the run that finds ops. A program without an end reaches this bound."""


def scenarios(*, protocol: str | None = None, **more: Any) -> st.SearchStrategy[Scenario]:
    """Returns a strategy for scenarios of a protocol. The scenarios have no expectation.

    For a program with `Params`, the arguments are `form`, `variant` and `params` (strategies for single parameters).
    Also `max_faults` (1), `max_delays` (0), and `kinds` of faults: skip, repeat, die. For any other program, and
    without a protocol, the arguments are those of the package with its parameters.

    Raises UnknownName for a protocol that is not registered, and ValueError at the first draw if `params` lacks a
    parameter that names a file.
    """
    if protocol is not None and registry.protocol(protocol).program.Params is not None:
        return with_params(protocol, **more)
    from dpsim.testing import strategy_of_a_package

    found: st.SearchStrategy[Scenario] = strategy_of_a_package("scenarios")(
        **({} if protocol is None else {"protocol": protocol}), **more
    )
    return found


@st.composite
def with_params(
    draw: st.DrawFn,
    protocol: str,
    *,
    form: str | None = None,
    variant: str | None = None,
    params: Mapping[str, st.SearchStrategy[Any]] | None = None,
    max_faults: int = 1,
    max_delays: int = 0,
    kinds: Sequence[str] = KINDS,
) -> Scenario:
    """Draws scenarios of a program with `Params`."""
    program = registry.protocol(protocol).program
    model: Any = program.Params
    for field in required_files(model):
        if field not in (params or {}):
            raise ValueError(
                f"scenarios: protocol.params.{field} of {protocol} names a file, and Hypothesis draws no files: give "
                f'params={{"{field}": st.just("mine.py")}}'
            )
    ranks = {key: st.integers(*bounds) for key, bounds in rank_fields(program).items()}
    drawn = draw(params_of(model, {**ranks, **(params or {})}))
    size = program.ranks(model.model_validate(drawn))
    if type(size) is int and size < 1:
        raise ValueError(
            f"scenarios: {program.__qualname__}.ranks gave {size} for {drawn}; expected at least 1 rank: bound its "
            "parameters, for instance by Field(ge=1, le=4)"
        )
    allow_files_of(model.model_validate(drawn), params or ())
    kept = within(model.model_validate(drawn), drawn, size)
    choice = {"name": protocol, "form": form, "variant": variant, "params": kept}
    scenario = scenario_from({"name": "drawn", "protocol": choice})
    assume(not scenario.beyond())
    faults, delays = draw(st.integers(0, max_faults)), draw(st.integers(0, max_delays))
    if not (faults or delays):
        return scenario
    places = _places(scenario)
    return scenario_from(
        {**dict(scenario), "faults": draw(_faults(places, faults, kinds)), "delays": draw(_delays(places, delays))}
    )


def _places(scenario: Scenario) -> list[Place]:
    from dpsim.campaign.subject import Subject
    from dpsim.campaign.swarm import places
    from dpsim.sim.backend import SimBackend

    subject = Subject.of(scenario)
    world = replace(subject.world, progress=MOST_OPS)
    return places(world, SimBackend().run_program(world, subject.program, subject.prepared))


@st.composite
def _faults(draw: st.DrawFn, places: Sequence[Place], most: int, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Draws the possible kinds first, and prints them (`dpsim.scenario.swarm` says why)."""
    possible = [kind for kind in kinds if draw(st.booleans())] or list(kinds[:1])
    if most and currently_in_test_context():
        note(f"faults that were possible: {', '.join(possible)}")
    found: dict[str, dict[str, Any]] = {}
    for _ in range(most):
        kind = draw(st.sampled_from(possible))
        where = [one for one in places if one.site and (one.calls or kind == "die")]
        if where:
            place = draw(st.sampled_from(where))
            found.setdefault(str(place), {"kind": kind, "rank": place.who, **place.at})
    return list(found.values())


@st.composite
def _delays(draw: st.DrawFn, places: Sequence[Place], most: int) -> list[dict[str, Any]]:
    found = []
    for _ in range(most):
        place = draw(st.sampled_from([one for one in places if one.can_be_late]))
        found.append({"rank": place.who, "by": format_duration(draw(st.integers(1, 2000)) * 1000), **place.at})
    return found


MOST = 4
"""Ranks that a strategy draws where the model has no upper bound."""


@functools.lru_cache(1_000)
def rank_fields(program: type[Program[Any]]) -> dict[str, tuple[int, int]]:
    """The least and greatest value to draw, by key, of fields that set the number of ranks: (1, 4) of `ranks: int = 2`.

    Without bounds, 0 gives no rank, and a thousand no end of a search. `Program.ranks` may be any function: a field
    counts if another value changes its result. None for bounds from 1, or if no small values fit.
    """
    model: Any = program.Params
    shapes = fields(model)
    open_ones = {
        key: shape
        for key, shape in shapes.items()
        if isinstance(shape, Number) and shape.step == 1 and (shape.most is None or (shape.least or 0) < 1)
    }
    base = {
        field.alias or name: max(1, shape.least or 0)
        for name, field in model.model_fields.items()
        if field.is_required() and isinstance(shape := shapes[field.alias or name], Number)
    }
    found = {}
    for key, shape in open_ones.items():
        least = max(1, shape.least or 0)
        most = max(MOST, least) if shape.most is None else shape.most
        some = range(least, min(most, least + MOST) + 1)
        if len({_ranks(program, model, {**base, key: value}) for value in some}) > 1:
            found[key] = least, most
    return found


def _ranks(program: type[Program[Any]], model: type[BaseModel], values: dict[str, int]) -> int | None:
    """None if the model refuses the values."""
    with suppress(Exception):  # what a validator, or the user's own function, raises
        return program.ranks(model.model_validate(values))
    return None
