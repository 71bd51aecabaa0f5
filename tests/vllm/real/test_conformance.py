"""Tests that `dp_batch` gives the same journals on real processes as in the simulation."""

from __future__ import annotations

from typing import Any

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE, STREAM
from dpsim.contract.program import Arguments
from dpsim.vllm.params.arguments import EngineArguments, Request
from real.backend import TorchBackend
from tests.real.test_conformance import on_both
from tests.real.worlds import NCCL, make_world

pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group("gloo"), pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)]


def dp_batch(size: int, **config: Any) -> Arguments:
    """Returns arguments of `dp_batch` with prompts and decodes, and with low thresholds, so that ranks split some
    steps.
    """
    thresholds = {"enable_dbo": True, "dbo_decode_token_threshold": 2, "dbo_prefill_token_threshold": 4}
    return EngineArguments(
        topology={"data_parallel_size": size},
        config={**thresholds, **config},
        requests=tuple(Request(index * 10_000_000, 5 + 3 * index, 4 + index) for index in range(6)),
        step_ns=20_000_000,
        form="source-000",
    )


@pytest.mark.parametrize(("asynchronous", "stream"), [(True, None), (False, "main")], ids=["host", "device"])
def test_batch_agreement_in_both_domains(backend: TorchBackend, asynchronous: bool, stream: str | None) -> None:
    run = on_both(backend, make_world(), "dp_batch", dp_batch(2, async_scheduling=asynchronous))
    agreements = [record for record in run.journals[0] if record[KIND] == "collective" and record[SITE] == "dp.agree"]
    assert {record[STREAM] for record in agreements} == {stream}
    plans = [
        record[DECISION_VALUE] for record in run.journals[0] if record[KIND] == "decision" and record[SITE] == "plan"
    ]
    assert {microbatched for microbatched, _, _ in plans} == {True, False}
    assert run.backend == backend.name
    assert "torch" in run.versions
    assert run.observed == ""
    assert 0 < max(run.waited_ns) <= run.elapsed_ns
