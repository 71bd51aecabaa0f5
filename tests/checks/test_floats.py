"""Tests floating-point reductions on hosts and devices. A NaN under max or min is a finding. If the order of a sum
matters, the verdict lists this as an assumption.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import ReduceOp
from dpsim.contract.rules.floats import order_matters
from dpsim.diagnose.words import text
from tests.programs import Script, explored, judged, world_of

WORLD = world_of(3, hosts=["h"], devices=["d"])
SAID = "the order of floating-point sums does not matter"
BIG = 2.0**24


def fill(x: np.ndarray, value: float) -> None:
    x[:] = value


def brings(values: list[float], op: ReduceOp = "max", device: bool = False, how: str = "all_reduce") -> Script:
    """Each rank contributes its value to a reduction."""

    async def script(rank: Rank) -> None:
        value = values[rank.rank]
        array = np.array([1, value, 1], np.float32)
        if device:
            main, group = rank.stream("main"), rank.device("d")
            buffer = main.alloc(3, "float32", "x")
            main.launch("fill", fill, writes=[buffer], args=(value,))
            if how == "reduce_scatter":
                group.reduce_scatter(main.alloc(1, "float32", "y"), buffer, main, site="worst")
            elif how == "reduce":
                group.reduce(buffer, 0, main, op=op, site="worst")
            else:
                group.all_reduce(buffer, main, op=op, site="worst")
            await buffer.read("seen")
        elif how == "reduce_scatter":
            await rank.host("h").reduce_scatter(array, site="worst")
        elif how == "reduce":
            await rank.host("h").reduce(array, 0, op=op, site="worst")
        else:
            await rank.host("h").all_reduce(array, op=op, site="worst")

    return script


DOMAINS = pytest.mark.parametrize("device", [False, True], ids=["hosts", "devices"])


@DOMAINS
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("how", ["all_reduce", "reduce"])
def test_a_nan_that_is_compared_is_a_finding(op: ReduceOp, how: str, device: bool) -> None:
    script = brings([0.0, math.nan, 1.0], op, device, how)
    for findings in (judged(WORLD, script), list(explored(WORLD, script).findings)):
        (finding,) = findings
        assert (finding.check, finding.klass) == ("floats", "UNDEFINED:NAN")
        assert finding.culprit is not None
        assert (finding.culprit.rank, finding.culprit.site) == (1, "worst")
        assert finding.culprit.where.startswith("tests/checks/test_floats.py:")
        assert f"the {op} of a NaN" in text(finding.message)


@DOMAINS
@pytest.mark.parametrize(
    ("op", "other", "culprit"), [("max", 0.0, 2), ("max", -1.0, 2), ("min", -0.0, 1), ("min", 1.0, 2)]
)
@pytest.mark.parametrize("how", ["all_reduce", "reduce"])
def test_zeros_of_both_signs_that_are_compared_are_a_finding(
    op: ReduceOp, other: float, culprit: int, how: str, device: bool
) -> None:
    script = brings([0.0, other, -0.0], op, device, how)
    for findings in (judged(WORLD, script), list(explored(WORLD, script).findings)):
        (finding,) = findings
        assert (finding.check, finding.klass) == ("floats", "UNDEFINED:ZERO_SIGN")
        assert finding.culprit is not None
        assert (finding.culprit.rank, finding.culprit.site) == (culprit, "worst")


@DOMAINS
@pytest.mark.parametrize(
    ("values", "op"), [([0.0, 0.0, -1.0], "max"), ([-0.0, -0.0, -0.0], "max"), ([0.0, -0.0, -1.0], "min")], ids=str
)
def test_zeros_of_one_sign_or_below_another_number_have_a_maximum(
    values: list[float], op: ReduceOp, device: bool
) -> None:
    assert judged(WORLD, brings(values, op, device)) == []


def test_a_nan_beside_zeros_of_both_signs_is_named() -> None:
    (finding,) = judged(WORLD, brings([0.0, math.nan, -0.0]))
    assert finding.klass == "UNDEFINED:NAN"


@DOMAINS
@pytest.mark.parametrize("values", [[0.0, -0.0, 1.0], [math.inf, -math.inf, 0.0]], ids=str)
def test_zeros_and_infinities_have_a_maximum(values: list[float], device: bool) -> None:
    assert judged(WORLD, brings(values, device=device)) == []


@DOMAINS
def test_a_nan_that_is_added_stays_one(device: bool) -> None:
    found = explored(WORLD, brings([0.0, math.nan, 1.0], "sum", device))
    assert (found.verdict, SAID in found.assumes) == ("proven", False)


@DOMAINS
@pytest.mark.parametrize("how", ["all_reduce", "reduce", "reduce_scatter"])
@pytest.mark.parametrize(("values", "said"), [([1, 1, BIG], True), ([1, 2, 3], False)], ids=str)
def test_a_sum_whose_order_matters_adds_an_assumption(values: list[float], said: bool, how: str, device: bool) -> None:
    found = explored(WORLD, brings(values, "sum", device, how))
    assert found.verdict == "proven"
    assert (SAID in found.assumes) == said


def test_sums_of_integers_add_no_assumption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.sim.collectives.results.order_matters", None)

    async def script(rank: Rank) -> None:
        await rank.host("h").all_reduce(np.array([2**30], np.int32), op="sum")

    assert judged(WORLD, script) == []


CASES = [
    ([1, 1, BIG], True),
    ([1, BIG, 1], True),
    ([0.1, 0.2, 0.3], None),
    ([math.inf, -math.inf, 1], False),
    ([math.inf, 1, BIG], False),
    ([3e38, 3e38, -3e38], True),
    ([BIG, -BIG, 1], True),  # (1 + BIG) - BIG is 0, but only in the order of the ring
    ([-0.0, 0.0, -0.0], False),
    ([math.nan, 1, BIG], False),
    ([BIG, 1], False),
]


@pytest.mark.parametrize(("terms", "matters"), CASES, ids=str)
def test_order_matters_finds_sums_whose_order_changes_the_result(terms: list[float], matters: bool | None) -> None:
    """The verdict has no assumption if all orders of the terms give the same sum."""
    arrays = [np.array([0, term], np.float32) for term in terms]
    with np.errstate(all="ignore"):
        sums = {repr(sum_of(list(order))) for order in itertools.permutations(arrays)}
    assert order_matters(arrays) == (len(sums) > 1 if matters is None else matters)
    if order_matters(arrays) is False and len(terms) == 3:
        assert len(sums) == 1


def sum_of(terms: list[np.ndarray]) -> float:
    total = terms[0].copy()
    for term in terms[1:]:
        total = total + term
    return float(total[1]) + 0.0
