"""Tests a microbatch that raises: in each release its sibling waits without end; in the repaired form the step ends."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Buffer
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.releases import REPAIRED
from tests.vllm.overlap.dbo_worlds import found_class, planted, scenario
from tests.vllm.released import FORWARDS

WHOLE = [(2, 1)] * 4


class NoKernel(RuntimeError):
    """The error of a layer that has no kernel for a small batch."""


def raising(form: str, number: int, behind: bool = False) -> type[OverlapForward]:
    """Returns a forward in which microbatch `number` raises: in its second layer, or after the last if `behind`."""

    class Raises(FORWARDS[form]):  # type: ignore[misc, valid-type]
        async def mixture(self, layer: int, attended: Buffer) -> Buffer:
            split = self.dbo.enabled and self.dbo.current_ubatch_id == number
            if split and not behind and layer == 1:
                raise NoKernel(f"microbatch {number}")
            mixed: Buffer = await super().mixture(layer, attended)
            if split and behind and layer == self.layers - 1:
                raise NoKernel(f"microbatch {number}")
            return mixed

    return Raises


STANDS = "waits for flag ubatch.{}.event (baton.wait"


@pytest.mark.parametrize(
    "form",
    [pytest.param(one, marks=pytest.mark.slow) if "-" in one else one for one in FORWARDS if one != REPAIRED.name],
)
def test_a_sibling_of_one_that_raises(form: str) -> None:
    """In each release, if one microbatch raises, the other waits for the baton without end.

    The main thread joins the waiting thread, so it waits without end, too. It does not matter which microbatch raises.
    """
    for number, found_as in enumerate(("HANG:FLAG:THREAD_ENDED", "CRASH:NOKERNEL")):
        found = planted(scenario(WHOLE, form=form), raising(form, number))
        stands = STANDS.format(1 - number) in found.report()
        assert (found_class(found), stands) == (found_as, True), found.report()


def test_the_repaired_form_lets_the_sibling_go() -> None:
    for number in range(2):
        found = planted(scenario(WHOLE, form=REPAIRED.name), raising(REPAIRED.name, number))
        assert (found_class(found), "did not return" in found.report()) == ("CRASH:NOKERNEL", False), found.report()


@pytest.mark.parametrize(("form", "ends"), [("0.33", "CRASH:DROPPEDTOKENS"), ("v2-0.33", "CRASH:RUNTIMEERROR")])
def test_a_rank_that_raises_after_its_last_yield(form: str, ends: str) -> None:
    """After the last yield of a microbatch, an error blocks no sibling.

    The V1 runner continues with the rows of the other microbatch only; the V2 runner raises.
    """
    found = planted(scenario(WHOLE, form=form), raising(form, 1, behind=True))
    assert found_class(found) == ends, found.report()
