"""Hypothesis strategies for planted faults and delays, as mappings for a scenario (`dpsim.vllm.params.strategies`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st

from dpsim.scenario.duration import format_duration
from dpsim.vllm.config import Topology
from dpsim.vllm.params.communicators import communicators

SITES = ("dp.agree", "experts.combine")
"""The sites of collectives in `dp_batch`."""


@st.composite
def faults(
    draw: st.DrawFn,
    topology: Topology,
    max_faults: int = 1,
    sites: Sequence[str] = SITES,
    max_ordinal: int = 3,
    kinds: Sequence[str] = ("skip", "repeat", "alter", "die"),
) -> list[dict[str, Any]]:
    """Up to `max_faults` faults at different ops, as mappings for a scenario. The strategy first draws and notes which
    of the `kinds` are possible in this example (see `dpsim.scenario.swarm`). Shrinks to none, then to a skip by rank 0.
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
    """Up to `max_delays` delays: late starts, slow sites, late ops. As mappings for a scenario. Shrinks to none."""
    found = []
    for _ in range(draw(st.integers(0, max_delays))):
        rank = draw(st.integers(0, topology.world_size - 1))
        delay: dict[str, Any] = {"rank": rank, "by": format_duration(draw(st.integers(1, 2000)) * 1000)}
        every = st.sampled_from(list(sites)).map(lambda site: {"site": site})
        at = draw(st.none() | every | _addresses(topology, rank, tuple(sites), max_ordinal))
        found.append(delay if at is None else {**delay, "at": at})
    return found


# ---- parts


@st.composite
def _addresses(
    draw: st.DrawFn, topology: Topology, rank: int, sites: tuple[str, ...], max_ordinal: int
) -> dict[str, str | int]:
    """The address of one collective of `rank`, by site or by communicator."""
    number = draw(st.integers(0, max_ordinal))
    own = [spec.name for spec in communicators(topology) if rank in spec.ranks]
    places = [("site", site) for site in sites] + [("communicator", name) for name in own]
    key, name = draw(st.sampled_from(places))
    return {key: name, "ordinal" if key == "site" else "seq": number}


@st.composite
def _changes(draw: st.DrawFn) -> dict[str, str | int]:
    """A change of an all-reduce of int32, the only one of the protocol: it has no root."""
    key = draw(st.sampled_from(["count", "op", "dtype"]))
    if key == "count":
        return {"count": draw(st.integers(1, 16))}
    if key == "op":
        return {"op": draw(st.sampled_from(["broadcast", "reduce", "gather", "scatter"]))}
    return {"dtype": draw(st.sampled_from(["int64", "float32", "bool", "int8", "float16", "bfloat16", "float64"]))}
