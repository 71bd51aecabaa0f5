"""Tests the element types of collectives against torch: bfloat16, which numpy lacks, and the order of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.contract.collectives.reductions import NUMBERS, REDUCTIONS, reduction_name
from dpsim.contract.collectives.sent import reduced
from dpsim.contract.dtypes import CARRIERS, NUMPY, as_bfloat16, as_float32, bits, converted, numpy_dtype
from dpsim.contract.interface import HostArray
from dpsim.contract.ops import DTYPES
from dpsim.contract.rules.floats import has_nan, order_matters

SPECIAL = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, 1.00390625, 1.01171875, -65504.0]


def drawn(count: int) -> HostArray:
    """Returns random floats of every magnitude. Every third one is halfway between two numbers of type bfloat16."""
    raw = np.random.default_rng(7).integers(0, 1 << 32, count, np.uint32)
    raw[::3] = raw[::3] & 0xFFFF0000 | 0x8000
    return np.concatenate([raw.view(np.float32), np.array(SPECIAL, np.float32)])


def test_each_type_has_its_size_and_a_type_of_numpy_that_no_other_one_has() -> None:
    assert {name: dtype.itemsize for name, dtype in NUMPY.items()} == DTYPES
    assert len({*NUMPY.values()}) == len(DTYPES)
    with pytest.raises(ValueError, match="dtype 'int128' is none of bool, int8"):
        numpy_dtype("int128")


def test_torch_has_all_of_them() -> None:
    torch = pytest.importorskip("torch")
    for name, size in DTYPES.items():
        assert getattr(torch, name).itemsize == size
        assert getattr(torch, CARRIERS.get(name, name)).itemsize == size


def of_torch(array: HostArray) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(bits(array)).view(torch.bfloat16)


def in_torch(array: HostArray) -> HostArray:
    torch = pytest.importorskip("torch")
    rounded: HostArray = torch.from_numpy(array).to(torch.bfloat16).view(torch.int16).numpy()
    return rounded


def test_rounding_to_bfloat16_is_that_of_torch() -> None:
    floats = drawn(3_000)
    mine, theirs = bits(as_bfloat16(floats)), in_torch(floats)
    differ = mine != theirs
    assert np.isnan(floats[differ]).all(), "only the bits of a NaN differ"
    back = as_float32(as_bfloat16(floats))
    assert np.array_equal(back, of_torch(as_bfloat16(floats)).float().numpy(), equal_nan=True)


def test_cutting_the_lower_half_is_another_rounding() -> None:
    floats = drawn(300)
    assert (floats.view(np.uint32) >> 16 != in_torch(floats).view(np.uint16)).any()


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod", "avg"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_floats_are_reduced_in_the_order_of_the_group(op: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    rows = np.random.default_rng(3).normal(size=(5, 64))
    terms = [as_bfloat16(row) if dtype == "bfloat16" else row.astype(dtype) for row in rows]
    tensors = [of_torch(term) if dtype == "bfloat16" else torch.from_numpy(term) for term in terms]
    steps = {"sum": torch.add, "avg": torch.add, "prod": torch.mul, "max": torch.maximum, "min": torch.minimum}
    total = tensors[0]
    for tensor in tensors[1:]:
        total = steps[op](total, tensor)
    total = total / len(tensors) if op == "avg" else total
    mine = reduced(op, terms)
    assert mine.dtype == numpy_dtype(dtype)
    same = of_torch(mine) if dtype == "bfloat16" else torch.from_numpy(mine)
    assert torch.equal(same, total)
    if op in ("sum", "prod", "avg"):
        other = [terms[index] for index in (4, 2, 0, 3, 1)]
        assert bits(reduced(op, other)).tobytes() != bits(mine).tobytes(), (
            "another order of addition gives another result"
        )
        assert order_matters(terms, "prod" if op == "prod" else "sum")


@pytest.mark.parametrize("op", REDUCTIONS)
def test_the_fold_of_many_is_that_of_two(op: Any) -> None:
    for dtype in {*REDUCTIONS[op].dtypes} - {"float16", "bfloat16", "float32", "float64"}:
        terms = [np.array([1, 0, 3, 100 + k], np.int64).astype(dtype) for k in range(4)]
        one_by_one = terms[0]
        for term in terms[1:]:
            one_by_one = reduced(op, [one_by_one, term])
        assert reduced(op, terms).tolist() == one_by_one.tolist()
        assert reduced(op, terms).dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("op", "dtype", "says"),
    [
        ("band", "float32", "no library has the reduction band of float32; it takes bool, int8"),
        ("avg", "int64", "no library has the reduction avg of int64; it takes float16, bfloat16, float32, float64"),
        ("sum", "int16", "no library has the reduction sum of int16"),
        ("max", "complex64", "no library has the reduction max of complex64"),
        ("product", "int32", "the reduction 'product' is none of sum, max, min, prod, avg, band, bor, bxor"),
    ],
)
def test_a_reduction_that_no_library_has_is_refused(op: str, dtype: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        reduction_name(op, dtype)


def test_types_that_differ_are_reduced_as_numbers() -> None:
    """If the members of an all-reduce pass different types, the result has the type of the longest array. All elements
    are converted to it.
    """
    halves, ones = as_bfloat16(np.full(2, 0.5)), np.ones(1, np.int32)
    assert as_float32(reduced("sum", [halves, ones])).tolist() == [1.5, 0.5]
    assert reduced("sum", [np.ones(2, np.int32), as_bfloat16(np.full(1, 2.0))]).tolist() == [3, 1]
    assert converted(ones, np.dtype("float64")).dtype == np.float64


def test_a_nan_of_type_bfloat16_is_seen() -> None:
    assert has_nan(as_bfloat16(np.array([1.0, np.nan])))
    assert not has_nan(as_bfloat16(np.array([1.0, np.inf])))


def test_every_reduction_has_known_dtypes() -> None:
    assert {*NUMBERS} >= {dtype for reduction in REDUCTIONS.values() for dtype in reduction.dtypes}
