"""Runs of a small world, healthy or with planted faults, and random records, for the tests of traces."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Literal, get_type_hints

from hypothesis import strategies as st

from dpsim.contract.chain import Chain
from dpsim.contract.ops import KIND, RECORDS, SITE, STEP, WHERE, RawRecord
from dpsim.contract.times import ActorTimes
from dpsim.contract.world import At, End, Fault, Run, World
from dpsim.scenario import Scenario
from dpsim.sim.backend import SimBackend
from tests.every_value import COUNTS, every
from tests.programs import world_of
from tests.protocols import agreed

RANKS = 3


def given(tokens: tuple[int, ...], variant: str | None = None) -> Scenario:
    """Returns a scenario of six steps with these numbers of tokens."""
    return agreed({"ranks": RANKS, "steps": 6, "tokens": list(tokens)}, variant)


def make_world(*faults: Fault) -> World:
    return world_of(RANKS, ["dp_cpu"], ["dp", "ep"], faults=faults)


@cache
def simulate(
    *faults: tuple[Literal["skip", "repeat", "alter", "die"], int, str, int],
    tokens: tuple[int, ...] = (5, 6, 7, 8),
    variant: str | None = None,
) -> Run:
    """Returns the run with these faults: (kind, rank, site, ordinal). Callers must not change the run."""
    planted = (Fault(kind, rank, At(site, ordinal)) for kind, rank, site, ordinal in faults)
    return SimBackend().run(make_world(*planted), "t_agree", given(tokens, variant).arguments())


def find(journal: list[RawRecord], kind: str, step: int, site: str) -> int:
    """Returns the index of the first record of that kind, step and site."""
    return next(at for at, raw in enumerate(journal) if (raw[KIND], raw[STEP], raw[SITE]) == (kind, step, site))


# ---- random records

WRITTEN = sorted(RECORDS.keys() - {"injected"})


@st.composite
def records(draw: st.DrawFn) -> RawRecord:
    """Draws a record of any kind, with any content that its types allow."""
    kind = draw(st.sampled_from(WRITTEN))
    hints = get_type_hints(RECORDS[kind])
    return tuple(kind if name == "kind" else draw(every(hints[name])) for name in RECORDS[kind]._fields)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Draws a run with any content of the fields that a trace keeps. Only lengths and keys fit each other."""
    journals = draw(st.lists(st.lists(records(), max_size=3), min_size=1, max_size=3))
    actors, places = len(journals), [raw[WHERE] for own in journals for raw in own]
    listed = {name: st.lists(COUNTS, min_size=actors, max_size=actors) for name in ("waited_ns", "steps_set")}
    run: Run = draw(
        every(
            Run,
            journals=st.just(journals),
            ends=st.lists(every(End), min_size=actors, max_size=actors),
            waited_ns=listed["waited_ns"],
            elapsed_ns=COUNTS,
            steps_set=st.just(()) | listed["steps_set"].map(tuple),
            chains=st.dictionaries(st.sampled_from(places), every(Chain)) if places else st.just({}),
            times=st.just(()) | st.tuples(*[times(len(own)) for own in journals]),
            **{name: st.just(value) for name, value in NOT_KEPT.items()},  # type: ignore[arg-type]
        )
    )
    return replace(run, steps_set=() if run.finished else run.steps_set)


def times(records: int) -> st.SearchStrategy[ActorTimes]:
    """Draws the times of an actor with this number of records. No op ends before it begins."""
    written = st.lists(st.integers(0, 2**40), min_size=records, max_size=records).map(sorted)
    lasted = st.dictionaries(st.integers(0, records - 1), st.integers(0, 2**40)) if records else st.just({})
    return st.builds(lambda at, ns: ActorTimes(tuple(at), {op: at[op] + ns[op] for op in sorted(ns)}), written, lasted)


NOT_KEPT = {
    one.name: one.default_factory() if one.default_factory is not MISSING else one.default
    for one in fields(Run)
    if one.name in ("standing", "occupied", "endless", "overdue", "lost", "services", "taken", "undefined")
}
"""The fields of a run that a trace leaves out: the scenario has the services, and a replay finds the others again."""
