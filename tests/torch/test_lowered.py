"""Tests that each call of torch becomes the contract's call of the same name, with the elements of the rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.collectives import COLLECTIVES
from dpsim.contract.collectives import reductions as of_contract
from dpsim.contract.dtypes import numpy_dtype
from dpsim.contract.ops import DTYPES
from dpsim.torch.lowered import _MORE, REDUCTIONS, TorchCall, lower


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_lowered_elements_have_the_bytes_of_the_block(dtype: Any, count: int) -> None:
    block = bytes(range(count * DTYPES[dtype]))
    lowered = lower(TorchCall("broadcast", "s", dtype, count, root=0), block, (0, 1), 1)
    assert (lowered.array.dtype, lowered.array.size) == (numpy_dtype(dtype), count)
    assert (lowered.dtype, lowered.elements) == (dtype, count)
    assert lowered.blocks(lowered.array) == [block]


def test_each_call_of_the_contract_and_each_reduction_has_its_line() -> None:
    assert {*_MORE} == {*COLLECTIVES, "send", "recv"}
    assert {*REDUCTIONS.values()} == {*of_contract.REDUCTIONS}


@pytest.mark.parametrize(
    ("call", "own", "more", "elements"),
    [
        (TorchCall("all_reduce", "s", "bfloat16", 2, "product"), 0, {"op": "prod"}, 2),
        (TorchCall("reduce", "s", "float16", 2, "avg", 1), 0, {"root": 1, "op": "avg"}, 2),
        (TorchCall("reduce_scatter", "s", "bool", 2, "band"), 1, {"op": "band"}, 1),
        (TorchCall("all_gather", "s", "uint8", 2), 1, {}, 4),
        (TorchCall("gather", "s", "int16", 2, root=0), 0, {"root": 0}, 4),
        (TorchCall("gather", "s", "int16", 2, root=0), 1, {"root": 0}, 0),
        (TorchCall("scatter", "s", "complex64", 2, root=1), 1, {"root": 1}, 1),
        (
            TorchCall("all_to_all", "s", "int8", 2, sent=(2, 0), received=(1, 4)),
            0,
            {"source_sizes": (2, 0), "output_sizes": (1, 4)},
            5,
        ),
        (TorchCall("send", "s", "uint64", 2, peer=1), 0, {"to": 1}, 0),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_call_is_the_one_of_its_name(call: TorchCall, own: int, more: dict[str, Any], elements: int) -> None:
    block = bytes(range(2 * DTYPES[call.dtype]))
    lowered = lower(call, block, (0, 1), own)
    assert (lowered.name, lowered.more, lowered.elements) == (call.name, more, elements)
    assert lowered.array.tobytes() == block


def test_receivers_of_a_scatter_pass_zeros() -> None:
    lowered = lower(TorchCall("scatter", "s", "float32", 6, root=1), b"", (0, 1, 2), 2)
    assert (lowered.array.tolist(), lowered.elements) == ([0.0] * 6, 2)


def test_a_block_of_half_an_element_is_refused() -> None:
    with pytest.raises(ValueError, match="buffer size must be a multiple"):
        lower(TorchCall("broadcast", "s", "float32", 1, root=0), b"abc", (0, 1), 0)


def test_both_sides_agree_on_what_is_reduced() -> None:
    """Compares the reductions of both sides. The rank's process rejects the types that torch rejects, and the contract
    accepts all others.
    """
    torch = pytest.importorskip("torch")
    from dpsim.torch.child.reductions import NAMES, name_of

    assert {*NAMES.values()} == {*REDUCTIONS}
    for op, word in NAMES.items():
        taken = []
        for dtype in DTYPES:
            try:
                assert name_of(op, getattr(torch, dtype), "all_reduce") == word
                taken.append(dtype)
            except (RuntimeError, NotImplementedError):
                pass
        assert {*taken} == {*of_contract.REDUCTIONS[REDUCTIONS[word]].dtypes}, word


def test_an_empty_array_is_one_of_its_type() -> None:
    lowered = lower(TorchCall("all_gather", "s", "bfloat16", 0), b"", (0, 1), 0)
    assert np.concatenate([lowered.array] * 2).dtype == numpy_dtype("bfloat16")
