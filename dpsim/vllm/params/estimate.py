"""The size of a run of engines, from its requests and limits alone: about the steps of the busiest replica.

A request takes a step for each chunk of its prompt and one for each output token. A replica runs up to `max_num_seqs`
requests at once, and computes up to `max_num_batched_tokens` a step. So the longest request bounds the steps from
below, and so do all tokens together. Requests that arrive late run with fewer others, at most one step a tick. One
that is aborted takes no step after that.

    >>> args = EngineArguments(TOPOLOGY, CONFIG, (Request(0, 100, 16_000_000),), 20_000_000, form="")
    >>> str(estimate_of(args))
    'about 16,000,001 steps, 256,000,016 records, 106 GB'

A stage has room for the longest request in each slot, even if the request ends early.

Runs of this package measured the bytes: `RECORD` of a record, `PIECE` of a request's share in a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpsim.contract.program import Estimate
from dpsim.vllm.params.arguments import EngineArguments, Request

RECORD, PIECE, REQUEST = 400, 200, 700
RECORDS_A_STEP = 16
"""Records of a rank in a step. Runs had 9 to 25."""

CELL = 32
"""Bytes of a computed token and a position of its request, in `table`: four numbers of a kernel."""

SLOT, CAPTURED = 28, 8
"""Bytes of a position of each slot, in the tables and caches of `table`; of each request, where graphs are captured."""

TOPOLOGY = {"data_parallel_size": 1, "tensor_parallel_size": 1, "pipeline_parallel_size": 1}
CONFIG = {"max_num_seqs": 128, "max_num_batched_tokens": 8192}


def estimate_of(args: EngineArguments, *, table: bool = False) -> Estimate:
    """`table`: each computed token looks at all positions of its request, as in pp_tokens."""
    requests, step, budget = args.requests, max(1, args.step_ns), max(1, args.config["max_num_batched_tokens"])
    replicas, size = args.topology["data_parallel_size"], 1
    for name in TOPOLOGY:
        size *= args.topology[name]
    shares = [_share(one, budget, step) for one in requests]
    pieces, longest = sum(shares), max(shares, default=0)
    tokens = sum(one.prompt_tokens for one in requests)
    ticks = max((one.arrival_ns for one in requests), default=0) // step
    full = max(pieces // (replicas * max(1, args.config["max_num_seqs"])), tokens // (replicas * budget))
    steps = max(longest, full, min(pieces, ticks + longest))
    records = steps * size * RECORDS_A_STEP
    room = _longest(requests) * _kept(args, table) * size
    cells = min(budget, tokens) * _longest(requests) * CELL if table else 0
    return Estimate(steps, records, records * RECORD + pieces * PIECE + len(requests) * REQUEST + cells + room)


def _share(request: Request, budget: int, step_ns: int) -> int:
    """The steps in which a request takes part: no more than the ticks from its arrival to its abort, and these two."""
    whole = -(-request.prompt_tokens // budget) + request.length
    return whole if request.abort_ns is None else min(whole, (request.abort_ns - request.arrival_ns) // step_ns + 2)


def _longest(requests: Sequence[Request]) -> int:
    """Positions of the longest request, even if it ends early. One of a session continues where others ended."""
    sessions = Counter[str]()
    for one in requests:
        if one.session is not None:
            sessions[one.session] += one.prompt_tokens + one.output_tokens
    alone = (one.prompt_tokens + one.output_tokens for one in requests if one.session is None)
    return max([*alone, *sessions.values()], default=0)


def _kept(args: EngineArguments, table: bool) -> int:
    """Bytes that a rank holds for each position, before its first step."""
    if table:
        return max(1, int(args.config["max_num_seqs"])) * SLOT
    return (len(args.requests) + 1) * CAPTURED if args.config.get("capture_graphs") else 0
