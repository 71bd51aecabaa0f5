"""Estimates the steps, records and memory of a run from its requests and limits, before dpsim runs it.

A request takes one step for each chunk of its prompt, and one for each output token. The longest request is a lower
bound of the steps, and the sum of all tokens is another one. Requests that arrive late share their steps with fewer
others, at most one step a tick of the clock.

    >>> args = EngineArguments(TOPOLOGY, CONFIG, (Request(0, 100, 16_000_000),), 20_000_000, form="")
    >>> str(estimate_of(args))
    'about 16,000,001 steps, 256,000,016 records, 106 GB'

The result is of the busiest replica. The byte constants below are measurements of runs of this package.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpsim.contract.program import Estimate
from dpsim.vllm.params.arguments import EngineArguments, Request

RECORD, PIECE, REQUEST = 400, 200, 700
"""Bytes of a journal record, of a request's share in a step, and of a request."""
RECORDS_A_STEP = 16
"""Journal records of a rank in a step. Measured runs had 9 to 25."""

CELL = 32
"""Bytes for each pair of a computed token and a position of its request, if `table` is set: four numbers of a kernel.
"""

SLOT, CAPTURED = 28, 8
"""Bytes that a rank allocates for each position: of a slot, if `table` is set; of a request, if it captures graphs."""

TOPOLOGY = {"data_parallel_size": 1, "tensor_parallel_size": 1, "pipeline_parallel_size": 1}
CONFIG = {"max_num_seqs": 128, "max_num_batched_tokens": 8192}


def estimate_of(args: EngineArguments, *, table: bool = False) -> Estimate:
    """`table`: each computed token reads all positions of its request, as in the program `pp_tokens`."""
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
    """An aborted request takes part in at most the ticks from its arrival to its abort, and in these two ticks."""
    whole = -(-request.prompt_tokens // budget) + request.length
    return whole if request.abort_ns is None else min(whole, (request.abort_ns - request.arrival_ns) // step_ns + 2)


def _longest(requests: Sequence[Request]) -> int:
    """Positions, even if a request ends early, because a stage allocates them for each slot.

    A request of a session continues where earlier requests of the session ended, so their positions add up.
    """
    sessions = Counter[str]()
    for one in requests:
        if one.session is not None:
            sessions[one.session] += one.prompt_tokens + one.output_tokens
    alone = (one.prompt_tokens + one.output_tokens for one in requests if one.session is None)
    return max([*alone, *sessions.values()], default=0)


def _kept(args: EngineArguments, table: bool) -> int:
    if table:
        return max(1, int(args.config["max_num_seqs"])) * SLOT
    return (len(args.requests) + 1) * CAPTURED if args.config.get("capture_graphs") else 0
