"""Hypothesis strategies that draw injected faults and delays, as mappings for a scenario file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st

from dpsim.scenario.duration import format_duration
from dpsim.vllm.config import Topology
from dpsim.vllm.params.communicators import communicators

SITES = ("dp.agree", "experts.combine")
"""The sites (names of calls in the program) of the collectives in `dp_batch`."""


@st.composite
def faults(
    draw: st.DrawFn,
    topology: Topology,
    max_faults: int = 1,
    sites: Sequence[str] = SITES,
    max_ordinal: int = 3,
    kinds: Sequence[str] = ("skip", "repeat", "alter", "die"),
) -> list[dict[str, Any]]:
    """Draws up to `max_faults` faults at different ops, as mappings for a scenario file.

    In each example the strategy first draws which of the `kinds` are possible, and notes them (see
    `dpsim.scenario.swarm`). `sites` and `max_ordinal` limit the addresses of the ops. Hypothesis shrinks to no fault,
    then to a skip by rank 0.
    """
    found: dict[tuple[int, str], dict[str, Any]] = {}
    possible = [kind for kind in kinds if draw(st.booleans())] or list(kinds[:1])
    if max_faults and currently_in_test_context():
        note(f"faults that were possible: {', '.join(possible)}")
    for _ in range(draw(st.integers(0, max_faults))):
        kind = draw(st.sampled_from(possible))
        rank = draw(st.integers(0, topology.world_size - 1))
        at = draw(_addresses(topology, rank, tuple(sites), max_ordinal))
        fault = {"kind": kind, "rank": rank, "at": at}
        if kind == "alter":
            fault["change"] = draw(_changes())
        found.setdefault((rank, str(at)), fault)
    return list(found.values())


@st.composite
def delays(
    draw: st.DrawFn, topology: Topology, max_delays: int = 2, sites: Sequence[str] = SITES, max_ordinal: int = 3
) -> list[dict[str, Any]]:
    """Draws up to `max_delays` delays as mappings for a scenario file: late starts, slow sites, and late ops.

    Hypothesis shrinks to no delay.
    """
    found = []
    for _ in range(draw(st.integers(0, max_delays))):
        rank = draw(st.integers(0, topology.world_size - 1))
        delay: dict[str, Any] = {"rank": rank, "by": format_duration(draw(st.integers(1, 2000)) * 1000)}
        every = st.sampled_from(list(sites)).map(lambda site: {"site": site})
        at = draw(st.none() | every | _addresses(topology, rank, tuple(sites), max_ordinal))
        found.append(delay if at is None else {**delay, "at": at})
    return found


# ---- parts of a fault or delay


@st.composite
def _addresses(
    draw: st.DrawFn, topology: Topology, rank: int, sites: tuple[str, ...], max_ordinal: int
) -> dict[str, str | int]:
    number = draw(st.integers(0, max_ordinal))
    own = [spec.name for spec in communicators(topology) if rank in spec.ranks]
    places = [("site", site) for site in sites] + [("communicator", name) for name in own]
    key, name = draw(st.sampled_from(places))
    return {key: name, "ordinal" if key == "site" else "seq": number}


@st.composite
def _changes(draw: st.DrawFn) -> dict[str, str | int]:
    """The int32 all-reduce is the only collective of the protocol, so no change concerns a root."""
    key = draw(st.sampled_from(["count", "op", "dtype"]))
    if key == "count":
        return {"count": draw(st.integers(1, 16))}
    if key == "op":
        return {"op": draw(st.sampled_from(["broadcast", "reduce", "gather", "scatter"]))}
    return {"dtype": draw(st.sampled_from(["int64", "float32", "bool", "int8", "float16", "bfloat16", "float64"]))}
