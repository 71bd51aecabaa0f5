"""Ranks that dispatch, agree and dispatch again find one graph, which exists and is for their batches.

All ranks have one configuration and different batches. The agreement is the smallest mode and the largest count
(specification 1.5 and 1.6). Each release of the V1 dispatcher dispatches. Then a rank looks for something else, has
other sizes, or remembers what it found (M-CG-1, 4, 5, 8 and 15 of 5.12).
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
    """Ranks of one configuration; each has the configured sizes in another order."""

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
    """What one rank does with its dispatcher. A mistake overrides one of these."""

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
    """`rank`: what each rank does; `last`: what the last one does, if something else."""
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
    """Rounds down (M-CG-1)."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return super().second(max([size for size in self.dispatcher.sizes if size < agreed], default=agreed), mode)


class FirstSmaller(RankDispatch):
    """Rounds down before anybody is asked (M-CG-1)."""

    def first(self) -> Found:
        smaller = [size for size in self.dispatcher.sizes if size < self.asked.num_tokens]
        return self.dispatcher.dispatch(max(smaller, default=self.asked.num_tokens), self.uniform())


class OtherSizes(RankDispatch):
    """Lacks the largest size (M-CG-5)."""

    def __init__(self, dispatcher: Dispatcher, asked: Asked, form: BatchForm) -> None:
        super().__init__(dispatcher, asked, form)
        self.dispatcher.sizes = dispatcher.sizes[:-1]


class ByTheLongest(RankDispatch):
    """A batch whose longest request has q tokens is taken for decodes (M-CG-8)."""

    def uniform(self) -> bool:
        return self.asked.longest == self.dispatcher.q


class OwnCount(RankDispatch):
    """The second dispatch forgets the agreement (M-CG-15)."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return super().second(self.asked.num_tokens, mode)


class NeverCaptured(RankDispatch):
    """FULL for a size that was not captured (M-CG-4)."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return mode, Descriptor(agreed, agreed, self.uniform())


class Keeps(RankDispatch):
    """Runs what it found first, if only the mode is the agreed one."""

    def second(self, agreed: int, mode: RuntimeMode) -> Found:
        return found if (found := self.first())[0] == mode else super().second(agreed, mode)


@pytest.mark.parametrize("kind", GRAPHS.values(), ids=list(GRAPHS))
@examples(30, 1000)
def test_ranks_come_to_one_graph(kind: type[Dispatcher], examples: int) -> None:
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


def test_what_0_14_allows() -> None:
    """1.6 d: "not FULL if M <= 1" against "exactly M"."""
    assert {mode: Release014().allowed_modes(mode) for mode in RuntimeMode} == {
        NONE: {NONE, PIECEWISE},
        PIECEWISE: {NONE, PIECEWISE},
        FULL: ALL_MODES,
    }
    assert {mode: Source000().allowed_modes(mode) for mode in RuntimeMode} == {mode: {mode} for mode in RuntimeMode}


def test_no_graph_in_the_agreed_mode() -> None:
    """The assertion says what is missing."""
    missing = r"no graph for 9 tokens \(uniform decode: False\) in the agreed mode FULL"
    with pytest.raises(AssertionError, match=missing):
        Dispatcher033(EngineConfig()).dispatch(9, False, allowed={FULL})
