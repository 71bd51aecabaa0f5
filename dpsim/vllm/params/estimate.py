"""How large a run of engines is, from its requests and limits alone: about as many steps as the busiest replica makes.

A request takes a step for each chunk of its prompt and one for each output token. A replica runs up to `max_num_seqs`
requests at once, and computes up to `max_num_batched_tokens` a step. So the longest request bounds the steps from
below, and so do all tokens together. Requests that arrive late run with fewer others, at most one step a tick.

    >>> args = EngineArguments(TOPOLOGY, CONFIG, (Request(0, 100, 16_000_000),), 20_000_000, form="")
    >>> str(estimate_of(args))
    'about 16,000,001 steps, 256,000,016 records, 106 GB'

The bytes are those that runs of this package took: `RECORD` of a record, `PIECE` of a request's share in a step.
"""

from __future__ import annotations

from dpsim.contract.program import Estimate
from dpsim.vllm.params.arguments import EngineArguments, Request

RECORD, PIECE, REQUEST = 400, 200, 700
RECORDS_A_STEP = 16
"""Of a rank. Runs had 9 to 25."""

CELL = 32
"""Bytes of a computed token and a position of its request, in `table`: four numbers of a kernel."""

TOPOLOGY = {"data_parallel_size": 1, "tensor_parallel_size": 1, "pipeline_parallel_size": 1}
CONFIG = {"max_num_seqs": 128, "max_num_batched_tokens": 8192}


def estimate_of(args: EngineArguments, *, table: bool = False) -> Estimate:
    """`table`: each computed token looks at all positions of its request, as in pp_tokens."""
    requests, budget = args.requests, max(1, args.config["max_num_batched_tokens"])
    replicas, size = args.topology["data_parallel_size"], 1
    for name in TOPOLOGY:
        size *= args.topology[name]
    shares = [-(-one.prompt_tokens // budget) + one.length for one in requests]
    pieces, longest = sum(shares), max(shares, default=0)
    tokens = sum(one.prompt_tokens for one in requests)
    ticks = max((one.arrival_ns for one in requests), default=0) // max(1, args.step_ns)
    full = max(pieces // (replicas * max(1, args.config["max_num_seqs"])), tokens // (replicas * budget))
    steps = max(longest, full, min(pieces, ticks + longest))
    records = steps * size * RECORDS_A_STEP
    cells = min(budget, tokens) * max(map(_positions, requests), default=0) if table else 0
    return Estimate(steps, records, records * RECORD + pieces * PIECE + len(requests) * REQUEST + cells * CELL)


def _positions(request: Request) -> int:
    return request.prompt_tokens + request.length
