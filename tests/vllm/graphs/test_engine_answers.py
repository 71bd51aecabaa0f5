"""Compares the V1 dispatcher with all stored answers of vLLM's own, and tests what the releases answer differently."""

from __future__ import annotations

import pytest

from dpsim.vllm.config import CUDAGraphMode, EngineConfig
from dpsim.vllm.graphs.dispatcher import (
    Descriptor,
    Dispatcher,
    Dispatcher014,
    Dispatcher017,
    Dispatcher024,
    Dispatcher033,
)
from dpsim_engine import comparison
from dpsim_engine.comparison import Difference
from dpsim_engine.dispatch import DISPATCH
from dpsim_engine.stored import answers
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
    """Each release's dispatcher equals all stored rows of its release, and the other releases' dispatchers differ in
    some.

    Release 0.33 answers all rows of 0.24, which is the exception.
    """
    assert differing(kind, version) == []
    same = {kind, Dispatcher033} if kind is Dispatcher024 else {kind}
    assert all(differing(other, version) for other in set(DISPATCHERS.values()) - same)


def test_drafts_in_mode_full() -> None:
    """In mode FULL with drafts, release 0.17 runs uniform decodes eagerly.

    It looks up size / q requests, but it registered min(size, max_num_seqs) requests.
    """
    config = EngineConfig(cudagraph_mode=CUDAGraphMode.FULL, num_speculative_tokens=1, max_num_seqs=8)
    found = {name: kind(config, [2, 4]).dispatch(4, uniform_decode=True) for name, kind in DISPATCHERS.items()}
    assert found == {
        "0.14": (FULL, Descriptor(4)),
        "0.17": (NONE, Descriptor(4)),
        "0.33": (FULL, Descriptor(4, 4)),
    }


def test_padded_decodes_have_to_be_whole() -> None:
    """A decode graph whose size is not a multiple of q fails an assertion, because it cannot hold whole requests.

    In mode FULL, 0.14 and 0.17 assert at dispatch, for 0.17 rounds no sizes in that mode. There 0.33 does not assert.
    """
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
    """Mode NONE and a batch above the largest size run eagerly even if the caller does not allow NONE.

    Only after a search without result does some code test whether NONE is allowed.
    """
    config = EngineConfig(cudagraph_capture_sizes=(1,))
    assert kind(config).dispatch(2, False, allowed={PIECEWISE}) == (NONE, Descriptor(2))
    eager = config.model_copy(update={"cudagraph_mode": CUDAGraphMode.NONE})
    assert kind(eager).dispatch(1, True, allowed={FULL}) == (NONE, Descriptor(1))
