"""The V1 dispatcher against the engine's own answers, all of them, and what its releases answer differently."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest

from dpsim.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.protocol.graphs.dispatcher import (
    ALL_MODES,
    DISPATCHERS,
    Descriptor,
    Dispatcher,
    Dispatcher014,
    Dispatcher017,
    Dispatcher033,
)
from tests.engine import answers
from tests.protocol.graphs.queries import FULL, NONE, PIECEWISE

Kind = type[Dispatcher]


def engine_config(asked: dict[str, Any]) -> EngineConfig:
    return EngineConfig(
        cudagraph_mode=asked["cudagraph_mode"],
        num_speculative_tokens=asked["query_len"] - 1,
        max_num_seqs=asked["max_num_seqs"],
        enable_lora=asked["lora"] != "off",
        cudagraph_specialize_lora=asked["lora"] == "both",
    )


def allowed_modes(row: dict[str, Any]) -> Set[RuntimeMode]:
    """0.14 can forbid FULL; later releases name what is allowed."""
    if "disable_full" in row:
        return ALL_MODES - {FULL} if row["disable_full"] else ALL_MODES
    return ALL_MODES if row["valid_modes"] is None else {RuntimeMode[name] for name in row["valid_modes"]}


def answered(row: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """What a dispatcher of ours answers to a row, in the engine's words."""
    try:
        dispatcher = kind(engine_config(row["config"]), row["config"]["capture_sizes"])
    except AssertionError:
        return {"raises": "AssertionError", "when": "initialize_cudagraph_keys"}
    try:
        mode, key = dispatcher.dispatch(
            row["num_tokens"], row["uniform_decode"], has_lora=row["has_lora"], allowed=allowed_modes(row)
        )
    except AssertionError:
        return {"raises": "AssertionError"}
    return {"mode": mode.name, **key._asdict()}


def differing(kind: Kind, version: str) -> list[int]:
    """The questions of a release that are answered otherwise here. A refusal's words are not compared."""
    rows = answers("dispatch_v1", version)
    assert rows, f"no answers of {version}"
    return [
        row["question"]
        for row in rows
        if answered(row, kind) != {key: value for key, value in row["answer"].items() if key != "message"}
    ]


@pytest.mark.parametrize(
    ("version", "kind"), [("0.14.0", Dispatcher014), ("0.17.0", Dispatcher017), ("0.33.0", Dispatcher033)]
)
def test_every_answer_of_the_engine(version: str, kind: Kind) -> None:
    """All rows of dispatch_v1 are equal; another release answers some of them otherwise."""
    assert differing(kind, version) == []
    assert all(differing(other, version) for other in DISPATCHERS.values() if other is not kind)


def test_drafts_in_mode_full() -> None:
    """0.17 asks for size / q requests and keeps min(size, max_num_seqs): uniform decodes with drafts run eagerly."""
    config = EngineConfig(cudagraph_mode=CUDAGraphMode.FULL, num_speculative_tokens=1, max_num_seqs=8)
    found = {name: kind(config, [2, 4]).dispatch(4, uniform_decode=True) for name, kind in DISPATCHERS.items()}
    assert found == {
        "0.14": (FULL, Descriptor(4)),
        "0.17": (NONE, Descriptor(4)),
        "0.33": (FULL, Descriptor(4, 4)),
    }


def test_padded_decodes_have_to_be_whole() -> None:
    """In mode FULL 0.14 and 0.17 assert it, and 0.17 does not round that ladder; 0.33 does not ask there."""
    config = EngineConfig(cudagraph_mode=CUDAGraphMode.FULL, cudagraph_capture_sizes=(3,), num_speculative_tokens=1)
    asserting: list[Kind] = [Dispatcher014, Dispatcher017]
    for kind in asserting:
        with pytest.raises(AssertionError, match="a decode graph of 3 tokens does not hold whole requests of 2"):
            kind(config).dispatch(2, uniform_decode=True)
    assert Dispatcher033(config, [3]).dispatch(2, uniform_decode=True) == (FULL, Descriptor(3, 3))
    for kind in DISPATCHERS.values():
        with pytest.raises(AssertionError, match="does not hold whole requests"):
            kind(config.model_copy(update={"cudagraph_mode": CUDAGraphMode.FULL_DECODE_ONLY}), [3])


@pytest.mark.parametrize("kind", DISPATCHERS.values(), ids=list(DISPATCHERS))
def test_none_whatever_is_allowed(kind: Kind) -> None:
    """An oversized batch and mode NONE: nobody asks whether NONE is allowed. Behind a search somebody does."""
    config = EngineConfig(cudagraph_capture_sizes=(1,))
    assert kind(config).dispatch(2, False, allowed={PIECEWISE}) == (NONE, Descriptor(2))
    eager = config.model_copy(update={"cudagraph_mode": CUDAGraphMode.NONE})
    assert kind(eager).dispatch(1, True, allowed={FULL}) == (NONE, Descriptor(1))
