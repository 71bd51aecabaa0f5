"""Tests of the drafter: the number of its agreements and forwards, and sequence parallelism.

The rules are in specification 10.2 and 10.3, and in invariant I-DP-2. For each property, a faulty drafter breaks it,
and random worlds find the fault. The worlds contain everything that a rank decides by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume

from dpsim.contract.program import Unsuitable
from dpsim.contract.registry import variant
from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import Source000
from dpsim.vllm.data_parallel.drafter import Drafter, graphs_of
from dpsim.vllm.data_parallel.flow import Flow017, Flow033
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import Descriptor, Dispatcher033
from dpsim.vllm.params.arguments import EngineArguments
from dpsim.vllm.programs.dp_batch import DataParallelBatch
from tests.properties import breaks, examples, holds
from tests.vllm.data_parallel.batch_worlds import (
    Drawn,
    Played,
    decodes,
    drawn_worlds,
    line_up,
    pieces,
    play,
    prefill,
    released,
)
from tests.vllm.released import STEPS

MTP: dict[str, Any] = {"speculative_method": "mtp"}


def calls(played: Played, site: str) -> list[list[int]]:
    """Returns how often each rank made the collective of a site (the name of a call), step by step."""
    steps = range(played.prepared.timeline.steps)
    return [[played.count(rank, "collective", site, step) for step in steps] for rank in played.ranks]


# ---- the number of agreements and forwards on every rank


def agreements_are_fixed(played: Played) -> None:
    """A step has one agreement for the target model and one for each phase of the drafter (invariant I-DP-2)."""
    drafts = played.prepared.config.num_speculative_tokens
    expected = 1 + min(drafts, 2)
    assert all(set(of_rank) == {expected} for of_rank in calls(played, "dp.agree")), "I-DP-2: agreements of a step"


def forwards_are_fixed(played: Played) -> None:
    """The drafter runs one forward for each speculative token, on every rank (specification 10.1, row 15)."""
    drafts = played.prepared.config.num_speculative_tokens
    forwards = calls(played, "draft.experts.combine")
    assert all(set(of_rank) == {drafts} for of_rank in forwards), "one drafter forward for each speculative token"


def nothing_found(played: Played) -> None:
    assert played.classes == [], "nothing is found"


@examples(8, 250, 1_000)
@pytest.mark.parametrize("release", STEPS)
def test_the_properties_of_a_drafter_hold_in_random_worlds(release: str, examples: int) -> None:
    """The properties hold in random worlds with idle ranks, long sequences, prefixes, encoder inputs and padding."""
    seen = {"draft": 0, "cut": 0, "long": 0}

    def all_hold(drawn: Drawn) -> None:
        played = drawn.play(**released(release))
        splits = release == "0.14" and drawn.config.get("enable_lora") and not drawn.config["cudagraph_specialize_lora"]
        assume(not splits)  # in 0.14, ranks with and without adapters may take different modes (example A-31)
        nothing_found(played)
        agreements_are_fixed(played)
        forwards_are_fixed(played)
        seen["draft"] += drawn.config["num_speculative_tokens"] > 0
        seen["cut"] += drawn.config.get("parts", 1) > 1
        seen["long"] += drawn.config["speculative_max_model_len"] == 8

    holds(all_hold, drawn_worlds(more=True), examples)
    assert min(seen.values()) > examples // 10, seen


class OnePhase(Drafter):
    """The drafter agrees for no phase if it has more than one."""

    async def agree(self, num_tokens: int) -> tuple[int, ...] | None:
        if self.config.num_speculative_tokens > 1:
            return (num_tokens,) * self.step.host.size
        return await super().agree(num_tokens)


class AlwaysTwice(Drafter):
    """The drafter runs a second phase even if it proposes only one token."""

    async def propose(self, batch: Batch) -> Any:
        return await super().propose(batch) + await self.phase(1, (), times=1)


@pytest.mark.parametrize(
    ("property_", "wrong", "says"),
    [
        (nothing_found, pieces("M-ES-4"), "nothing"),
        (nothing_found, pieces("M-ES-6"), "nothing"),
        (nothing_found, pieces("dp-implicit-on-dummies"), "nothing"),
        (agreements_are_fixed, {"drafter": OnePhase}, "I-DP-2"),
        (agreements_are_fixed, {"drafter": AlwaysTwice}, "I-DP-2"),
        (forwards_are_fixed, {"drafter": AlwaysTwice}, "one drafter forward"),
    ],
)
def test_a_wrong_drafter_is_found(property_: Callable[[Played], None], wrong: dict[str, Any], says: str) -> None:
    breaks(lambda drawn: property_(drawn.play(**wrong)), drawn_worlds(more=True), says)


# ---- small worlds


def drafted(played: Played, rank: int = 0) -> list[tuple[tuple[int, ...], int]]:
    return played.decided("draft.plan", rank)


@pytest.mark.parametrize(
    ("drafts", "expected"),
    [
        (1, [((4, 4), 1)]),
        (3, [((4, 4), 1), ((2, 2), 1)]),
    ],
)
def test_a_drafter_runs_all_tokens_first_and_then_one_for_each_request(drafts: int, expected: list[Any]) -> None:
    """The first phase of the drafter runs all tokens, and the second one a token for each request.

    Prompts of three tokens and one token make four tokens, and two requests.
    """
    requests = line_up([*prefill(3), *decodes(1)], [])
    sizes = (1, 2, 4, 8)
    played = play(requests, num_speculative_tokens=drafts, cudagraph_capture_sizes=sizes, flow=Unrounded, **MTP)
    assert played.findings == []
    assert drafted(played, 0) == drafted(played, 1) == expected


class Unrounded(Flow017):
    """The graph sizes are not rounded, and the target model runs eagerly, so that only the drafter has graphs."""

    def sizes(self) -> tuple[int, ...]:
        return tuple(self.config.cudagraph_capture_sizes or ())

    def first_dispatch(self, batch: Batch) -> tuple[RuntimeMode, Descriptor]:
        return RuntimeMode.NONE, Descriptor(batch.num_tokens)


@pytest.mark.parametrize(("longest", "tokens"), [(9, 8), (8, 1)])
def test_a_sequence_that_is_too_long(longest: int, tokens: int) -> None:
    """If a sequence is too long for the drafter, the rank runs a dummy of one token; the target model runs all tokens.

    Rank 0 has eight tokens and one draft, so a limit of nine fits, and a limit of eight does not.
    """
    config: dict[str, Any] = {"num_speculative_tokens": 1, "speculative_max_model_len": longest, **MTP}
    played = play(line_up(prefill(8), prefill(2)), cudagraph_mode="NONE", **config)
    assert played.findings == []
    assert drafted(played) == [((tokens, 2), 0)]
    assert played.decided("plan", 0) == [(False, (8, 2), 0)]


def test_no_drafter_without_a_model() -> None:
    for told in ({"num_speculative_tokens": 1}, MTP):
        played = play(line_up(decodes(1), []), **told)
        assert drafted(played) == []
        assert calls(played, "dp.agree") == [[1], [1]]


def test_a_single_rank_runs_its_drafter_without_an_agreement() -> None:
    """A single rank makes no agreement, and runs all forwards of the drafter (invariant I-DP-8)."""
    played = play(prefill(3), ranks=1, num_speculative_tokens=3, cudagraph_mode="NONE", **MTP)
    assert played.findings == []
    assert calls(played, "draft.experts.combine") == [[3]]
    assert calls(played, "dp.agree") == [[0]]


@pytest.mark.parametrize("mode", CUDAGraphMode)
def test_a_drafter_uses_piecewise_graphs(mode: CUDAGraphMode) -> None:
    """The drafter uses PIECEWISE graphs in every mode in which mixed batches have graphs."""
    expected = "NONE" if mode in ("NONE", "FULL_DECODE_ONLY") else "PIECEWISE"
    assert graphs_of(EngineConfig(cudagraph_mode=mode)).cudagraph_mode == expected


# ---- a forward without an agreed list of tokens (specification 1.8)


def test_a_context_without_a_list_agrees_implicitly() -> None:
    """A forward context without a list of tokens makes an implicit agreement: each rank keeps its own count, unpadded.

    The explicit agreement of the healthy drafter pads both ranks to the same graph.
    """
    config = {"num_speculative_tokens": 1, "cudagraph_capture_sizes": (2, 4, 8), **MTP}
    requests = line_up(prefill(3), prefill(7))
    implicit, explicit = play(requests, **pieces("dp-implicit-agreement"), **config), play(requests, **config)
    assert implicit.findings == explicit.findings == []
    assert implicit.decided("context", 0) == implicit.decided("context", 1) == [(3, 7)]
    assert drafted(explicit) == [((8, 8), 1)]
    assert explicit.decided("context", 0) == drafted(implicit) == []


def test_an_agreement_in_0_14_wants_no_padding() -> None:
    """The implicit agreement of release 0.14 wishes no padding, so each rank keeps its own count."""
    implicit = play(
        line_up(prefill(3), prefill(7)),
        **(released("0.14") | {"drafter": variant("dp-implicit-agreement").make}),
        num_speculative_tokens=1,
        **MTP,
    )
    assert implicit.findings == []
    assert implicit.decided("context", 0) == [(3, 7)]


# ---- sequence parallelism


def cut(**config: Any) -> Played:
    return play(line_up(prefill(3), prefill(6)), parts=4, enable_sp=True, **config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"cudagraph_mode": "NONE"}, (False, (4, 8), 0)),
        ({"cudagraph_capture_sizes": (4, 6, 8)}, (False, (8, 8), 1)),
        ({"cudagraph_capture_sizes": (4, 6)}, (False, (4, 8), 0)),
        ({"cudagraph_capture_sizes": (6, 7)}, (False, (4, 8), 0)),
    ],
)
def test_batches_are_cut_into_equal_parts(config: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Batches are padded to a multiple of the four parts: three and six tokens become four and eight.

    A graph of six tokens cannot be cut into four parts, so no rank uses it.
    """
    played = cut(**config)
    assert played.findings == []
    assert played.decided("plan", 0) == played.decided("plan", 1) == [expected]


def test_a_decode_stays_one() -> None:
    """A padded batch is still a uniform decode, because the rank decides this before it pads the tokens."""
    flow = Flow033(EngineConfig(enable_sp=True, cudagraph_capture_sizes=(4, 8)), Source000(), Dispatcher033, 4)
    mode, descriptor = flow.first_dispatch(Batch(((0, 1, 4),) * 3, 3, 1))
    assert (mode, descriptor.num_tokens, descriptor.uniform) == (RuntimeMode.FULL, 4, True)


def test_sizes_that_no_release_can_make_something_of() -> None:
    """Graph sizes that no release can use are refused with a message of one line."""
    config = {"cudagraph_capture_sizes": (1, 2), "num_speculative_tokens": 3}
    arguments = EngineArguments({"data_parallel_size": 2}, config, tuple(decodes(1)), 1, form="0.33")
    with pytest.raises(Unsuitable, match="config: no graph of at most 2 tokens can hold one decode of 4"):
        DataParallelBatch().prepare(arguments)
