"""Calls of torch as calls of the contract: elements come back as a rank brought them, and unlike members are found."""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.torch.lowered import WIDTHS, Form, Mixed, TorchCall, lower


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("reduce", ["", "sum", "product"])
def test_elements_come_back(dtype: str, count: int, reduce: str) -> None:
    form, block = Form(dtype, reduce), bytes(range(count * WIDTHS[dtype]))
    array = form.array(block)
    assert array.size == form.size(count)
    assert form.block(array, count) == block


@pytest.mark.parametrize("other", [Form("float16"), Form("bfloat16", "avg")])
def test_another_type_or_reduction_is_found(other: Form) -> None:
    mine = Form("bfloat16", "product")
    with pytest.raises(Mixed):
        mine.block(other.array(b"1234"), 2)


def test_a_reduction_that_the_contract_has_is_one_call() -> None:
    call = TorchCall("all_reduce", "s", "float32", 2, "max")
    lowered = lower(call, np.ones(2, np.float32).tobytes(), (0, 1), 0)
    assert (lowered.name, lowered.more, lowered.elements) == ("all_reduce", {"op": "max"}, 2)


def test_one_that_it_lacks_gathers_what_all_bring() -> None:
    call = TorchCall("all_reduce", "s", "float16", 2, "sum")
    lowered = lower(call, b"abcd", (0, 1), 0)
    assert lowered.name == "all_gather"
    assert lowered.blocks(np.concatenate([lowered.array] * 2)) == [b"abcd", b"abcd"]


def test_gather_gives_to_the_root_alone() -> None:
    call = TorchCall("gather", "s", "float32", 1, root=0, sent=(1, 0), received=(0, 0))
    lowered = lower(call, b"1234", (0, 1), 1)
    assert lowered.name == "all_to_all"
    assert lowered.more == {"source_sizes": [1, 0], "output_sizes": [0, 0]}
