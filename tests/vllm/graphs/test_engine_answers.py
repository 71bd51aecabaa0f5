"""The V1 dispatcher against the engine's own answers, all of them, and what its releases answer differently."""

from __future__ import annotations

import pytest

from dpsim.vllm.answers import comparison
from dpsim.vllm.answers.comparison import Difference
from dpsim.vllm.answers.dispatch import DISPATCH
from dpsim.vllm.answers.stored import answers
from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.graphs.dispatcher import (
    Descriptor,
    Dispatcher,
    Dispatcher014,
    Dispatcher017,
    Dispatcher024,
    Dispatcher033,
)
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE
from tests.vllm.released import DISPATCHERS

Kind = type[Dispatcher]


def differing(kind: Kind, version: str) -> list[Difference]:
    return comparison.differing(DISPATCH, answers("dispatch_v1", version), kind)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("0.14.0", Dispatcher014),
        pytest.param("0.17.0", Dispatcher017, marks=pytest.mark.slow),
        pytest.param("0.24.0", Dispatcher024, marks=pytest.mark.slow),
        ("0.33.0", Dispatcher033),
    ],
)
def test_every_answer_of_the_engine(version: str, kind: Kind) -> None:
    """All rows of dispatch_v1 are equal; another release answers some of them otherwise, but 0.33 as 0.24."""
    assert differing(kind, version) == []
    same = {kind, Dispatcher033} if kind is Dispatcher024 else {kind}
    assert all(differing(other, version) for other in set(DISPATCHERS.values()) - same)


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
    """An oversized batch and mode NONE: no code asks whether NONE is allowed. Behind a search some does."""
    config = EngineConfig(cudagraph_capture_sizes=(1,))
    assert kind(config).dispatch(2, False, allowed={PIECEWISE}) == (NONE, Descriptor(2))
    eager = config.model_copy(update={"cudagraph_mode": CUDAGraphMode.NONE})
    assert kind(eager).dispatch(1, True, allowed={FULL}) == (NONE, Descriptor(1))
