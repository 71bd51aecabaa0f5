"""Tests that each way to break the contract is refused with one sentence and the source line of the mistake. Valid
programs run.

`tests/real/test_failures.py` makes the same mistakes on gloo.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsim.backend.journal.plain import check_plain
from dpsim.checks.judge import judge
from dpsim.contract.ops import RAISED_MESSAGE, SITE, WHERE
from dpsim.contract.world import Run
from dpsim.sim.backend import SimBackend
from tests.backend.mistakes import KERNELS, LEFT, NO_MISTAKES, SAID, Mistakes
from tests.programs import world_of

WORLD = world_of(2, ["dp_cpu"], ["dp", "ep"])


def made(how: str) -> Run:
    return SimBackend().run(WORLD, "mistakes", {"how": how})


@pytest.mark.parametrize("how", SAID)
def test_a_mistake_is_refused_at_its_line(how: str) -> None:
    run = made(how)
    assert run.ends == ["finished", "raised"]
    raised = run.journals[1][-1]
    assert (raised[SITE], raised[RAISED_MESSAGE]) == SAID[how]
    line = getattr(Mistakes, how).__code__.co_firstlineno + 1
    assert raised[WHERE] == f"tests/backend/mistakes.py:{line}"
    assert f"CRASH:{SAID[how][0].upper()}" in [finding.klass for finding in judge(WORLD, run)]


@pytest.mark.parametrize("how", KERNELS)
def test_the_host_raises_the_mistake_of_a_kernel(how: str) -> None:
    run = made(how)
    assert run.ends == ["finished", "raised"]
    raised = run.journals[1][-1]
    assert (raised[SITE], raised[RAISED_MESSAGE]) == ("KernelError", KERNELS[how])


def test_a_kernel_that_writes_what_it_reads_is_named_by_its_own_line() -> None:
    where = made("writes_through_the_wrong_argument").journals[1][-1][WHERE]
    first = int(KERNELS["writes_through_the_wrong_argument"].split("mistakes.py:")[1].split(")")[0])
    assert where == f"tests/backend/mistakes.py:{first + 1}"


@pytest.mark.parametrize("how", LEFT)
def test_an_op_that_a_program_leaves_over_is_found(how: str) -> None:
    run = made(how)
    assert run.finished
    assert [finding.klass for finding in judge(WORLD, run)] == LEFT[how]


@pytest.mark.parametrize("how", NO_MISTAKES)
def test_a_legal_program_finishes_without_an_error(how: str) -> None:
    assert made(how).finished


@pytest.mark.parametrize("value", [1, -1.5, True, "text", None, (), (1, ("a", (None, False)))])
def test_plain_data_are_accepted(value: Any) -> None:
    check_plain(value, "the message", "site", named=False)


@pytest.mark.parametrize("value", [np.float64(1), np.bool_(True), np.str_("a"), b"a", {}, (1, ((), [2])), object()])
def test_values_that_are_no_plain_data_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^site: the message has .*; it must be a number"):
        check_plain(value, "the message", "site")
