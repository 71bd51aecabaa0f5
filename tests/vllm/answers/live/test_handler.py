"""Compares vLLM's handler of sampled tokens with dpsim's: the same collectives, waits, memory and results."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dpsim.vllm.museum.tokens import NoGeneration
from dpsim.vllm.pipeline.page_002 import Page002Tokens
from dpsim.vllm.pipeline.sampled_tokens import SampledTokens
from tests.vllm.answers.live.handler_cases import Case, draw
from tests.vllm.answers.live.handler_engine import EngineHandler
from tests.vllm.answers.live.handler_ours import OurHandler

CLASSES: dict[str, type[SampledTokens]] = {"0.24.0": Page002Tokens, "0.33.0": SampledTokens}


def cases(count: int, release: str = "0.33.0") -> list[Case]:
    """Draws cases. Release 0.24 gets batches with known lengths only."""
    random = Random(31)
    return [draw(random, limited=release == "0.24.0") for _ in range(count)]


@pytest.mark.nightly
@pytest.mark.parametrize("release", CLASSES)
def test_calls_and_results_are_the_engines(release: str) -> None:
    seen: Counter[str] = Counter()
    for case in cases(1000, release):
        engine = EngineHandler(release, case).run()
        assert OurHandler(case, CLASSES[release]).run() == engine, case
        seen["last" if case.is_last else "other"] += 1
        for call in engine:
            seen["broadcasts"] += sum(one[0] == "broadcast" for one in call.calls)
            seen["AssertionError"] += call.result == "AssertionError"
            seen["taken"] += isinstance(call.result, tuple)
            seen["some dropped"] += isinstance(call.result, tuple) and -1 in call.result[1]
    expected = "last", "other", "broadcasts", "AssertionError", "taken", "some dropped"
    assert min(seen[what] for what in expected) >= 20, seen


@pytest.mark.nightly
@pytest.mark.parametrize("tokens", [NoGeneration, Page002Tokens])
def test_a_faulty_handler_differs(tokens: type[SampledTokens]) -> None:
    assert any(OurHandler(case, tokens).run() != EngineHandler("0.33.0", case).run() for case in cases(1000))
