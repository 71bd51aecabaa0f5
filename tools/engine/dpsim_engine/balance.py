"""Compares the engine that a front end selects for each request of a history (specification 2.5).

    {"engines": 3, "client_index": 0, "client_count": 2, "events": [
        ["COUNTS", [[2, 1, 0.75], [0, 3, 0.0], [0, 3, 0.0]]],
        ["REQUEST", null], ["REQUEST", 2], ["FINISHED", [0]]]}

`COUNTS` is a message of the coordinator with the waiting and running requests of each engine. Since release 0.28, its
third number is the usage of the KV cache. `REQUEST` names an engine or none. `FINISHED` lists requests of this front
end that have ended. The answer contains the engine of each request, and after each event the counts that the front end
uses.
"""

from __future__ import annotations

from dpsim.vllm.engine.client import ClientView
from dpsim.vllm.releases import V0_14, V0_24, V0_28, V0_31, V0_33, Absent, Release
from dpsim_engine.comparison import Comparison, Row, ours_of


def balanced(row: Row, kind: type[ClientView]) -> Row:
    """Returns the answers of dpsim to the same history."""
    client = kind(range(row["engines"]), row["client_index"], row["client_count"])
    chosen: list[int] = []
    loads = []
    for what, numbers in row["events"]:
        if what == "COUNTS":
            client.update_counts(tuple(map(tuple, numbers)), 0, True)
        elif what == "REQUEST":
            chosen.append(client.send(numbers).engine)
        else:
            for request in numbers:
                client.ended(chosen[request])
        loads.append([list(client.load[engine]) for engine in client.engines])
    return {"chosen": chosen, "loads": loads}


def client_of(release: Release) -> type[ClientView] | Absent:
    return release.lockstep if isinstance(release.lockstep, Absent) else release.lockstep.client


BALANCE: Comparison[type[ClientView]] = Comparison(
    "balance",
    "balance",
    "vllm.v1.engine.core_client.DPLBAsyncMPClient.get_core_engine_for_request",
    ours_of(client_of, V0_14, V0_24, V0_28, V0_31, V0_33),
    balanced,
    lambda row: row["answer"],
    piece=client_of,
)
