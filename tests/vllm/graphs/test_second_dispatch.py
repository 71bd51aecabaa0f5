"""Tests that ranks which dispatch, agree and dispatch again choose one graph, which exists and fits their batches.

All ranks have one configuration and different batches. By spec chapters 1.5 and 1.6 they agree on the smallest mode and
the largest count. The test runs each release's V1 dispatcher. The planted mistakes are mutants M-CG-1, 4, 5, 8 and 15:
a rank looks up something else, has other sizes, or keeps its first choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, Release014, Source000
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor, Dispatcher, Dispatcher033
from tests.properties import breaks, examples, holds
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE, Asked, batches, graph_configs
from tests.vllm.released import GRAPHS

Found = tuple[RuntimeMode, Descriptor]


class Group(NamedTuple):
    """Ranks with one configuration. Each rank lists the configured sizes in another order."""

    config: EngineConfig
    asked: list[Asked]
    sizes: list[tuple[int, ...]]


@st.composite
def groups(draw: st.DrawFn) -> Group:
    config = draw(graph_configs())
    asked = draw(st.lists(batches(config), min_size=2, max_size=4))
    orders = [draw(st.permutations(config.cudagraph_capture_sizes or ())) for _ in asked]
    return Group(config, asked, [tuple(order) for order in orders])


class RankDispatch:
    """The steps of one rank around its dispatcher. Each mistake overrides one step."""

    def __init__(self, dispatcher: Dispatcher, asked: Asked, form: BatchForm) -> None:
        self.dispatcher = dispatcher
        self.asked = asked
        self.form = form

    def uniform(self) -> bool:
        return (
            self.asked.longest == self.dispatcher.q and self.asked.num_tokens == self.dispatcher.q * self.asked.num_reqs
        )

    def first(self) -> Found:
        return self.dispatcher.dispatch(self.asked.num_tokens, self.uniform())

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        allowed = frozenset(self.form.allowed_modes(mode))
        return self.dispatcher.dispatch(agreed, self.uniform(), allowed=allowed)


def one_graph(
    group: Group,
    kind: type[Dispatcher],
    rank: type[RankDispatch] = RankDispatch,
    last: type[RankDispatch] | None = None,
    form: BatchForm | None = None,
) -> None:
    """Asserts that all ranks choose one graph.

    `rank`: the steps of each rank; `last`: those of the last rank, if different.
    """
    config, form = group.config, form or Source000()
    kinds = [rank] * (len(group.asked) - 1) + [last or rank]
    ranks = [kinds[place](kind(config, group.sizes[place]), asked, form) for place, asked in enumerate(group.asked)]
    firsts = [one.first() for one in ranks]
    mode = min(mode for mode, _ in firsts)
    padded = max(key.num_tokens for _, key in firsts)
    for one, (_, own) in zip(ranks, firsts, strict=True):
        agreed = own.num_tokens if mode == NONE else padded
        found, key = one.second(agreed, mode)
        assert (found, key.num_tokens) == (mode, agreed), "I-DP-9: every rank runs the mode and the count agreed on"
        assert key.num_tokens >= one.asked.num_tokens, "I-CG-1: room for every token"
        if found != NONE:
            assert key in kind(config, config.cudagraph_capture_sizes).keys[found], "I-CG-3: a graph that was captured"
        if found == FULL:
            assert one.asked.num_reqs <= (key.num_reqs or one.asked.num_reqs), "I-CG-10: room for every request"
            shape = one.asked.uniform(one.dispatcher.q)
            assert shape or not key.uniform, "a decode graph for decodes only"


# ---- mistakes


class Smaller(RankDispatch):
    """Mutant M-CG-1: the second dispatch rounds the agreed count down."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return super().second(max([size for size in self.dispatcher.sizes if size < agreed], default=agreed), mode)


class FirstSmaller(RankDispatch):
    """Mutant M-CG-1: the first dispatch rounds the rank's own count down, before the agreement."""

    def first(self) -> Found:
        smaller = [size for size in self.dispatcher.sizes if size < self.asked.num_tokens]
        return self.dispatcher.dispatch(max(smaller, default=self.asked.num_tokens), self.uniform())


class OtherSizes(RankDispatch):
    """Mutant M-CG-5: the rank lacks the largest size."""

    def __init__(self, dispatcher: Dispatcher, asked: Asked, form: BatchForm) -> None:
        super().__init__(dispatcher, asked, form)
        self.dispatcher.sizes = dispatcher.sizes[:-1]


class ByTheLongest(RankDispatch):
    """Mutant M-CG-8: the rank treats a batch whose longest request has q tokens as a uniform decode."""

    def uniform(self) -> bool:
        return self.asked.longest == self.dispatcher.q


class OwnCount(RankDispatch):
    """Mutant M-CG-15: the second dispatch uses the rank's own count instead of the agreed one."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return super().second(self.asked.num_tokens, mode)


class NeverCaptured(RankDispatch):
    """Mutant M-CG-4: the rank runs FULL with a size that no rank captured."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return mode, Descriptor(agreed, agreed, self.uniform())


class Keeps(RankDispatch):
    """Faulty: the rank runs its first choice if the mode is the agreed one, even if the count is not."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return found if (found := self.first())[0] == mode else super().second(agreed, mode)


@pytest.mark.parametrize("kind", GRAPHS.values(), ids=list(GRAPHS))
@examples(30, 300, 2_000)
def test_all_ranks_dispatch_to_one_graph(kind: type[Dispatcher], examples: int) -> None:
    holds(lambda group: one_graph(group, kind), groups(), examples)


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ({"rank": Smaller}, "I-DP-9"),
        ({"last": Smaller}, "I-DP-9"),
        ({"rank": FirstSmaller}, "I-CG-1"),
        ({"last": OtherSizes}, "I-DP-9"),
        ({"rank": ByTheLongest}, "a decode graph for decodes only"),
        ({"rank": OwnCount}, "I-DP-9"),
        ({"rank": NeverCaptured}, "I-CG-3"),
        ({"rank": Keeps}, "I-DP-9"),
        ({"form": Release014()}, "I-DP-9"),
    ],
    ids=lambda value: getattr(next(iter(value.values())), "__name__", "0.14") if isinstance(value, dict) else "",
)
def test_a_mistake_is_found(mistake: dict[str, Any], says: str) -> None:
    breaks(lambda group: one_graph(group, Dispatcher033, **mistake), groups(), says)


def test_release_0_14_allows_modes_up_to_the_agreed_one() -> None:
    """Spec chapter 1.6 d: release 0.14 allows modes up to the agreed one, source page 000 exactly the agreed mode."""
    assert {mode: Release014().allowed_modes(mode) for mode in RuntimeMode} == {
        NONE: {NONE, PIECEWISE},
        PIECEWISE: {NONE, PIECEWISE},
        FULL: ALL_MODES,
    }
    assert {mode: Source000().allowed_modes(mode) for mode in RuntimeMode} == {mode: {mode} for mode in RuntimeMode}


def test_no_graph_in_the_agreed_mode() -> None:
    """If no graph exists in the agreed mode, the assertion names the tokens and the mode."""
    missing = r"no graph for 9 tokens \(uniform decode: False\) in the agreed mode FULL"
    with pytest.raises(AssertionError, match=missing):
        Dispatcher033(EngineConfig()).dispatch(9, False, allowed={FULL})
