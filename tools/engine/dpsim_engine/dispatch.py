"""Compares the CUDA graph that the V1 runner's dispatcher selects (specification 5.4)."""

from __future__ import annotations

from collections.abc import Set

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Dispatcher
from dpsim.vllm.releases import V0_14, V0_17, V0_24, V0_33
from dpsim_engine.comparison import Comparison, Row, ours_of


def engine_config(question: Row) -> EngineConfig:
    return EngineConfig(
        cudagraph_mode=question["cudagraph_mode"],
        num_speculative_tokens=question["query_len"] - 1,
        max_num_seqs=question["max_num_seqs"],
        enable_lora=question["lora"] != "off",
        cudagraph_specialize_lora=question["lora"] == "both",
    )


def allowed_modes(row: Row) -> Set[RuntimeMode]:
    """Returns the allowed modes: in 0.14 a caller can forbid FULL, and in later releases it names the allowed modes."""
    if "disable_full" in row:
        return ALL_MODES - {RuntimeMode.FULL} if row["disable_full"] else ALL_MODES
    return ALL_MODES if row["valid_modes"] is None else {RuntimeMode[name] for name in row["valid_modes"]}


def answered(row: Row, kind: type[Dispatcher]) -> Row:
    try:
        dispatcher = kind(engine_config(row["config"]), row["config"]["capture_sizes"])
    except AssertionError:
        return {"raises": "AssertionError", "when": "initialize_cudagraph_keys"}
    mode, key = dispatcher.dispatch(
        row["num_tokens"], row["uniform_decode"], has_lora=row["has_lora"], allowed=allowed_modes(row)
    )
    return {"mode": mode.name, **key._asdict()}


def expected(row: Row) -> Row:
    answer: Row = row["answer"]
    return answer


DISPATCH: Comparison[type[Dispatcher]] = Comparison(
    "dispatch_v1",
    "dispatch_v1",
    "vllm.v1.cudagraph_dispatcher.CudagraphDispatcher.dispatch",
    ours_of(lambda release: release.dispatcher, V0_14, V0_17, V0_24, V0_33),
    answered,
    expected,
    piece=lambda release: release.dispatcher,
)
