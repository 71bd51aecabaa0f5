"""Runs of a small world, healthy or with planted faults, and random records, for the tests of traces."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_type_hints

from hypothesis import strategies as st

from dpsim.contract.ops import KIND, RECORDS, SITE, STEP, Place, RawRecord, Refs
from dpsim.contract.world import At, Fault, Run, World
from dpsim.scenario import Scenario
from dpsim.sim.backend import SimBackend
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

NUMBERS = st.integers(-(2**70), 2**70)
TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    bool: st.booleans(),
    str: TEXTS,
    str | None: st.none() | TEXTS,
    int | None: st.none() | NUMBERS,
    tuple[int, ...]: st.lists(NUMBERS, max_size=3).map(tuple),
    Refs: st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple),
    Place | None: st.none() | st.tuples(NUMBERS, NUMBERS, NUMBERS),
    Any: VALUES,
}
WRITTEN = sorted(RECORDS.keys() - {"injected"})


@st.composite
def records(draw: st.DrawFn) -> RawRecord:
    """Draws a record of any kind, with any content that its types allow."""
    kind = draw(st.sampled_from(WRITTEN))
    hints = get_type_hints(RECORDS[kind])
    return tuple(kind if name == "kind" else draw(FIELDS[hints[name]]) for name in RECORDS[kind]._fields)
