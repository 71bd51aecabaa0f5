"""A microbatch that raises: in each release its sibling waits without end, and in the repaired form the step ends."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import Buffer
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.releases import REPAIRED
from tests.vllm.overlap.dbo_worlds import found_class, planted, scenario
from tests.vllm.released import FORWARDS

WHOLE = [(2, 1)] * 4


class NoKernel(RuntimeError):
    """Of a layer that takes no small batch."""


def raising(form: str, number: int, behind: bool = False) -> type[OverlapForward]:
    """The forward of a form, in which a microbatch raises in its second layer, or `behind` all layers."""

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
    """It stands in the baton in each release, whichever of both raises; the main thread joins it without end."""
    for number, found_as in enumerate(("HANG:FLAG:THREAD_ENDED", "CRASH:NOKERNEL")):
        found = planted(scenario(WHOLE, form=form), raising(form, number))
        stands = STANDS.format(1 - number) in found.report()
        assert (found_class(found), stands) == (found_as, True), found.report()


def test_the_repaired_form_lets_the_sibling_go() -> None:
    for number in range(2):
        found = planted(scenario(WHOLE, form=REPAIRED.name), raising(REPAIRED.name, number))
        assert (found_class(found), "did not return" in found.report()) == ("CRASH:NOKERNEL", False), found.report()


@pytest.mark.parametrize(("form", "ends"), [("0.33", "CRASH:DROPPEDTOKENS"), ("v2-0.33", "CRASH:RUNTIMEERROR")])
def test_one_that_raises_behind_its_last_yield(form: str, ends: str) -> None:
    """The V1 runner goes on with the rows of the other microbatch; the V2 runner raises."""
    found = planted(scenario(WHOLE, form=form), raising(form, 1, behind=True))
    assert found_class(found) == ends, found.report()
