"""Calls the function by which a front end of vLLM selects the engine of a request."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

from dpsim.vllm.releases import V0_24
from dpsim_engine.comparison import Row, series
from dpsim_engine.live.installed import function

CLIENT = "vllm.v1.engine.core_client"


def numbers_of_counts(release: str) -> int:
    """Returns the number of published counts of an engine.

    >>> numbers_of_counts("0.24.0"), numbers_of_counts("0.28.0")
    (2, 3)
    """
    return 2 if series(release) <= series(V0_24.name) else 3


def balance(row: Row) -> Row:
    """Puts the question to vLLM 0.14 to 0.33, on a client without its constructor, which would start engines."""
    kind = function(CLIENT, "DPLBAsyncMPClient")
    client, engines = kind.__new__(kind), range(row["engines"])
    client.client_count, client.client_index = row["client_count"], row["client_index"]
    client.eng_start_index = row["engines"] * row["client_index"] // row["client_count"]
    client.core_engines = [bytes([engine]) for engine in engines]
    client.lb_engines = [[0, 0, 0.0][: numbers_of_counts(row["version"])] for _ in engines]
    client.reqs_in_flight, client.engine_inflight, client.streaming_reqs = {}, Counter(), set()
    chosen: list[int] = []
    loads = []
    for what, arguments in row["events"]:
        if what == "COUNTS":
            client.lb_engines = [list(one) for one in arguments]
        elif what == "REQUEST":
            chosen.append(
                client.core_engines.index(client.get_core_engine_for_request(_request(len(chosen), arguments)))
            )
        else:
            ended = SimpleNamespace(finished_requests={str(request) for request in arguments})
            asyncio.run(kind.process_engine_outputs(client, ended))
        loads.append([list(one) for one in client.lb_engines])
    return {"answer": {"chosen": chosen, "loads": loads}}


def _request(number: int, engine: int | None) -> Any:
    return SimpleNamespace(request_id=str(number), data_parallel_rank=engine, pooling_params=None, resumable=False)
