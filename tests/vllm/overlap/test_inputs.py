"""Tests the inputs of microbatches and of SM control: embeddings, token counts, and how multiprocessors are divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dpsim.scenario import Scenario
from dpsim.vllm.data_parallel.microbatch_inputs import InputsCut
from dpsim.vllm.museum.overlap_slices import SharesMetadata
from dpsim.vllm.overlap.forms import Forward033
from dpsim.vllm.overlap.forward import OverlapForward
from dpsim.vllm.overlap.sm_control import SMControl, TooFewSMs
from tests.vllm.overlap.dbo_worlds import found_class, planted, scenario


def encoding(*prompts: int) -> Scenario:
    """Returns a scenario whose prompts have encoder inputs, assigned in turn to two ranks."""
    plain = scenario([(prompt, 1) for prompt in prompts])
    given = [request.model_copy(update={"encoder_inputs": True}) for request in plain.workload.requests or ()]
    return plain.model_copy(update={"workload": plain.workload.model_copy(update={"requests": tuple(given)})})


class TakesIds(Forward033):
    """Faulty: microbatches read the token ids of the step, although the step has embeddings instead of ids."""

    class Cut(InputsCut):
        def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
            return None

    inputs_cut = Cut


class TakesFirstRows(Forward033):
    """Faulty: each microbatch receives the first rows of the embeddings."""

    class Cut(InputsCut):
        def embeds(self, inputs_embeds: Any | None, rows: slice) -> Any | None:
            return super().embeds(inputs_embeds, slice(0, rows.stop - rows.start))

    inputs_cut = Cut


SLOW = [pytest.param(prompts, marks=pytest.mark.slow) for prompts in ((3, 4), (2, 2, 1, 2))]


@pytest.mark.parametrize("prompts", [(2, 2), *SLOW])
def test_microbatches_have_slices_of_the_embeddings(prompts: tuple[int, ...]) -> None:
    assert planted(encoding(*prompts), Forward033).verdict == "proven"


@pytest.mark.parametrize("mistake", [TakesIds, TakesFirstRows])
def test_microbatches_with_wrong_embeddings_are_found(mistake: type[OverlapForward]) -> None:
    found = found_class(planted(encoding(2, 2), mistake))
    assert found is not None
    assert found.startswith("CRASH:")


@pytest.mark.slow
def test_counts_of_the_first_are_those_of_all_where_the_total_is_even() -> None:
    """Source page 001 shares one object of token counts among microbatches.

    That is right, because it pads to even totals.

    With odd totals the shared counts fail.
    """
    assert planted(scenario([(4, 1), (4, 1)]), SharesMetadata).verdict == "proven"
    assert found_class(planted(scenario([(3, 1), (3, 1)]), SharesMetadata)) == "CRASH:VALUEERROR"


class ForgetsCounts(Forward033):
    """Faulty: the forward context lacks the token counts of all ranks."""

    def parts(self, context: Any, *more: Any) -> Any:
        return super().parts(context._replace(counts=()), *more)


def test_microbatches_need_counts() -> None:
    assert found_class(planted(scenario([(2, 1), (2, 1)]), ForgetsCounts)) == "CRASH:ASSERTIONERROR"


# ---- SM control (spec chapter 4.10)


@dataclass(frozen=True)
class Given:
    """Inputs of SM control, which divides a GPU's multiprocessors between computation and communication.

    `wanted`: the multiprocessors that the environment requests for communication. `most`: the all-to-all's maximum.
    """

    expert_parallel: bool = True
    wanted: int = 20
    most: int | None = 24
    deep_gemm: bool = True
    cuda: bool = True

    def control(self) -> SMControl:
        own = {"wanted": self.wanted, "most": self.most, "deep_gemm": self.deep_gemm, "cuda": self.cuda}
        kind: type[SMControl] = type("Own", (SMControl,), own)
        return kind(self.expert_parallel)


SHARES = {
    Given(): (20, 112),
    Given(wanted=40): (24, 108),
    Given(wanted=40, most=None): (40, 92),
    Given(wanted=0): (132, 132),
    Given(deep_gemm=False): (20, 132),
    Given(expert_parallel=False): (132, 112),
    Given(expert_parallel=False, wanted=40): (132, 92),  # no all-to-all manager, so no maximum
}


@pytest.mark.parametrize("given", SHARES)
def test_communication_and_compute_share_the_multiprocessors(given: Given) -> None:
    control = given.control()
    with control.shared_out():
        assert (control.comm, control.compute) == SHARES[given]
        control.check(microbatched=True)
    assert (control.comm, control.compute) == (132, 132)
    control.check(microbatched=False)


def test_a_wrong_share_of_multiprocessors_is_refused() -> None:
    with pytest.raises(AssertionError, match="on CUDA alone"):
        Given(cuda=False).control()
    with pytest.raises(AssertionError, match="132 multiprocessors to communicate leave none of 132"):
        Given(wanted=132, most=None).control()
    assert Given(wanted=131, most=None).control().shares() == (131, 1)


def test_an_all_to_all_that_was_not_set_up_is_found() -> None:
    """The check reports a share for communication although no expert parallelism set up an all-to-all for it."""
    control = Given(expert_parallel=False).control()
    control.comm, control.compute = 20, 112
    with pytest.raises(TooFewSMs, match="set up for 132 multiprocessors and has 20"):
        control.check(microbatched=True)
