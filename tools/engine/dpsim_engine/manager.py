"""Compares the graph manager of source page 004 with that of release 0.17: sizes, choices and captures.

Sections 5.2, 5.3 and 5.6 of the specification describe these sizes, choices and captures. The inputs of a capture
differ between the page and release 0.17. Both forms are compared with the answers of 0.17, and the page's form departs
in named fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.capture import CaptureForward, CaptureInputs, CaptureSize, forwards, inputs_004, inputs_017
from dpsim.vllm.graphs.manager import GraphManager
from dpsim.vllm.releases import PAGE_004, V0_17
from dpsim_engine.comparison import Comparison, Ours, Row

FILE = "graph_manager_004"
CLASS = "vllm.v1.worker.gpu.cudagraph_utils.CudaGraphManager"

DEPARTURES = {
    "query_start_loc": "starts every q tokens; 0.17 distributes tokens evenly, which differs where q does not divide",
    "num_scheduled_tokens": "follows from the query starts",
    "seq_lens": "the whole batch for each sequence, where 0.17 has the sequence's own share",
}
"""Inputs of a capture that source page 004 fills in another way than release 0.17."""


def question(row: Row) -> Row:
    """Returns the question of a row, without its answer."""
    names = ("num_reqs", "num_tokens", "max_query_len")
    asked = [{name: one[name] for name in names} for one in row["questions"]]
    return {"version": row["version"], "config": row["config"], "questions": asked}


def config_of(row: Row) -> EngineConfig:
    """Returns the configuration of a row; its sizes need not be multiples of q, nor within the token budget."""
    return EngineConfig(**{name: value for name, value in row["config"].items() if name != "data_parallel_size"})


def manager_of(row: Row, kind: type[GraphManager]) -> GraphManager:
    return kind(config_of(row), row["config"]["cudagraph_capture_sizes"] or ())


# ---- sizes


def runs(sizes: dict[int, int]) -> list[list[int]]:
    """Returns a map of sizes as the file writes it: `[from, to, size]`.

    >>> runs({1: 1, 2: 4, 3: 4, 4: 4})
    [[1, 1, 1], [2, 4, 4]]
    """
    found: list[list[int]] = []
    for count, size in sizes.items():
        if found and found[-1][2] == size and found[-1][1] == count - 1:
            found[-1][1] = count
        else:
            found.append([count, count, size])
    return found


def sizes(row: Row, kind: type[GraphManager]) -> Row:
    manager = manager_of(row, kind)
    return {
        "needs_capture": manager.needs_capture,
        "cudagraph_sizes": runs(manager.sizes),
        "uniform_decode_cudagraph_sizes": runs(manager.decode_sizes),
    }


SIZES_004: Comparison[type[GraphManager]] = Comparison(
    "sizes_004",
    FILE,
    "vllm.v1.worker.gpu.cudagraph_utils.get_cudagraph_sizes",
    (Ours(V0_17.version, GraphManager),),
    sizes,
    lambda row: {name: row[name] for name in ("needs_capture", "cudagraph_sizes", "uniform_decode_cudagraph_sizes")},
    question=question,
    last=V0_17.version,
)

# ---- choices, before and after a capture


def choices(row: Row, kind: type[GraphManager]) -> Row:
    manager = manager_of(row, kind)

    def ask() -> list[list[Any]]:
        chosen = [
            manager.runtime_mode(one["num_reqs"], one["num_tokens"], one["max_query_len"]) for one in row["questions"]
        ]
        return [[mode.name, size] for mode, size in chosen]

    before = ask()
    for capture in manager.captures():
        manager.record(capture)
    return {"before": before, "after": ask()}


CHOICES_004: Comparison[type[GraphManager]] = Comparison(
    "choices_004",
    FILE,
    f"{CLASS}.get_cudagraph_runtime_mode",
    (Ours(V0_17.version, GraphManager),),
    choices,
    lambda row: {when: [one[when] for one in row["questions"]] for when in ("before", "after")},
    question=question,
    last=V0_17.version,
)

# ---- captures

Captures = tuple[type[GraphManager], Callable[[CaptureSize, EngineConfig], CaptureInputs]]
"""A graph manager, and the function that fills the inputs of its captures."""


def captures(row: Row, ours: Captures) -> Row:
    """Returns the captures with their inputs, and the results of replays."""
    kind, inputs = ours
    config, manager = config_of(row), manager_of(row, kind)
    captured = manager.captures()
    for capture in captured:
        manager.record(capture)

    def replay(num_tokens: int) -> Any:
        try:
            return manager.replay_rows(num_tokens)
        except AssertionError:
            return {"raises": "AssertionError"}

    ranks = row["config"]["data_parallel_size"]
    return {
        "capture": [_capture_in_their_words(one, inputs(one, config), ranks) for one in captured],
        "capture_raises": None,
        "graphs": sorted(manager.captured),
        "hidden_states_rows": manager.output_rows,
        "replay": [[tokens, replay(tokens)] for tokens, _ in row["replay"]],
    }


def _forward_in_their_words(forward: CaptureForward) -> Row:
    across, descriptor = forward.num_tokens_across_dp, forward.descriptor
    return {
        "cudagraph_runtime_mode": forward.mode.name,
        "num_tokens": forward.num_tokens,
        "attn_metadata": forward.attn_metadata,
        "num_tokens_across_dp": None if across is None else list(across),
        "batch_descriptor": None if descriptor is None else [descriptor.num_tokens, descriptor.has_lora],
    }


def _capture_in_their_words(capture: CaptureSize, inputs: CaptureInputs, ranks: int) -> Row:
    reqs = inputs.num_reqs
    return {
        "num_tokens": capture.num_tokens,
        "num_reqs": reqs,
        "num_scheduled_tokens": list(inputs.num_scheduled_tokens),
        "query_start_loc": list(inputs.query_start_loc[: reqs + 1]),
        "seq_lens": list(inputs.seq_lens[:reqs]),
        "graph": capture.mode is RuntimeMode.FULL,
        "forwards": [_forward_in_their_words(forward) for forward in forwards(capture, ranks)],
    }


def expected_captures(row: Row) -> Row:
    """Returns vLLM's answer without `pool`, a memory pool, which is no argument of a pure function."""
    names = ("capture", "capture_raises", "graphs", "hidden_states_rows", "replay")
    return {name: row[name] for name in names}


CAPTURES_004: Comparison[Captures] = Comparison(
    "captures_004",
    FILE,
    f"{CLASS}.capture",
    (
        Ours(V0_17.version, (GraphManager, inputs_017)),
        Ours(V0_17.version, (GraphManager, inputs_004), PAGE_004.name, DEPARTURES),
    ),
    captures,
    expected_captures,
    question=question,
    last=V0_17.version,
)
