"""Hypothesis strategies for scenarios of any protocol: write the property, and Hypothesis looks for what breaks it.

    @given(scenarios(protocol="waves", max_faults=0))
    def test_a_healthy_protocol_never_hangs(scenario):
        holds(scenario)              # dpsim.testing: explores schedules, and raises if one fails

    scenarios(protocol="waves", params={"steps": st.just(2)})

The parameters of a program that has `Params` come from its model (`dpsim.testing.models`). Faults and delays lie at ops
that a healthy run of the same world makes; the strategy makes that run on the simulation. A package with parameters of
another kind brings a strategy of the same name (entry point group `dpsim.strategies`).

Hypothesis draws neither schedules nor seeds: `holds` explores the schedules. So a failure is a function of its
scenario, and Hypothesis shrinks it to the smallest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import assume, currently_in_test_context, note
from hypothesis import strategies as st

from dpsim.contract import registry
from dpsim.scenario import Scenario, scenario_from
from dpsim.scenario.duration import format_duration
from dpsim.scenario.params.files import allow_files_of
from dpsim.scenario.params.per_rank import within
from dpsim.testing.models import params as params_of
from dpsim.testing.rank_fields import rank_fields

if TYPE_CHECKING:
    from dpsim.scenario.swarm import Place

KINDS = ("skip", "repeat", "die")

MOST_OPS = 2_000
"""Of a rank, in the run that finds ops: a program that does not end has enough of them."""


def scenarios(*, protocol: str | None = None, **more: Any) -> st.SearchStrategy[Scenario]:
    """Scenarios of a protocol, with nothing expected of them.

    Of a program with `Params`: `form`, `variant`; `params`, strategies for single parameters; `max_faults` (1) and
    `max_delays` (0); `kinds` of faults: skip, repeat, die. Of any other program, and without a protocol, what the
    package with its parameters takes.

    Raises UnknownName for a protocol that is not registered.
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
    """Scenarios of a program that has `Params`."""
    program = registry.protocol(protocol).program
    model: Any = program.Params
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
    """The ops of one run without faults."""
    from dpsim.campaign.subject import Subject
    from dpsim.campaign.swarm import places
    from dpsim.sim.backend import SimBackend

    subject = Subject.of(scenario)
    world = replace(subject.world, progress=MOST_OPS)
    return places(world, SimBackend().run_program(world, subject.program, subject.prepared))


@st.composite
def _faults(draw: st.DrawFn, places: Sequence[Place], most: int, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Which kinds are possible in this example is drawn first, and noted (`dpsim.scenario.swarm` says why)."""
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
