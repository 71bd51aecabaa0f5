"""Compares vLLM's unmodified `dp_utils.py` of four releases with the model `dp_batch`, in randomly drawn worlds.

A world has requests and a configuration. `dp_batch` runs its steps, and the file receives the same batches. Some worlds
contain a mistake; the museum has a class with the same mistake for the model. Both sides must give the same verdict. If
a check finds the mistake, class, rank and step must be equal, too, and a hang must name a line of the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dpsim.campaign.explored import Explored, explore_subject
from dpsim.campaign.subject import Subject
from dpsim.scenario import scenario_from
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import StepPlan
from dpsim.vllm.data_parallel.flow import BatchFlow
from dpsim.vllm.data_parallel.step import DataParallelStep
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.museum.batch import KeepsOwnMode, OwnLastMicrobatch, PadsByOwnMode, SkipsWithoutTokens
from dpsim.vllm.programs.dp_batch import DataParallelBatch
from tests.vllm.data_parallel.batch_worlds import Drawn, Played, drawn_worlds, released
from tests.vllm.torch.wheels import DIGESTS, dp_utils

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "programs" / "agreements.py"
FORMS = {"0.14.0": "0.14", "0.17.0": "source-000", "0.24.0": "source-000", "0.33.0": "0.33"}
"""The form of `dp_batch` for each release. Releases 0.17 and 0.24 agree as source page 000 does."""
MISTAKES: dict[str, type[DataParallelStep]] = {
    "": DataParallelStep,
    "forgets": SkipsWithoutTokens,
    "own mode": KeepsOwnMode,
    "own padding": PadsByOwnMode,
    "own split": OwnLastMicrobatch,
}
OF_PAGE_000 = ("own split",)
"""Mistakes that the museum contains only for the agreement of source page 000."""


class Verdict(NamedTuple):
    """The compared values: the verdict, and the class, culprit and step of the first finding."""

    verdict: str
    klass: str = ""
    ranks: tuple[int, ...] = ()
    step: int | None = None


def verdict(found: Explored, first: int = 0) -> Verdict:
    """Returns the compared values of an exploration. `first`: the number of its first step."""
    if not found.findings:
        return Verdict(found.verdict)
    culprit = found.findings[0].culprit
    if culprit is None:
        return Verdict(found.verdict, found.findings[0].klass)
    return Verdict(found.verdict, found.findings[0].klass, culprit.ranks or (culprit.rank,), culprit.step - first)


def of_model(played: Played) -> Explored:
    return explore_subject(Subject(played.world, DataParallelBatch(), played.prepared), "dpor", schedules=200)


def of_file(played: Played, release: str, mistake: str, folder: Path) -> Explored:
    """Explores the steps of the world with the `dp_utils.py` of a release."""
    config, flow = played.prepared.config, played.prepared.flow
    names = ("dbo_decode_token_threshold", "dbo_prefill_token_threshold", "num_ubatches", "use_ubatching")
    told = {name: getattr(config, name) for name in names}
    told["disable_nccl_for_dp_synchronization"] = config.syncs_on_host
    timeline = played.prepared.timeline
    steps = [rows(flow, timeline.batches(step)) for step in range(timeline.steps)]
    file = folder / "world.json"
    file.write_text(json.dumps({"config": told, "steps": steps, "mistake": mistake}))
    params = {"target": f"{PROGRAM}:main", "ranks": played.world.size, "args": [str(dp_utils(release)), str(file)]}
    return explore_subject(Subject.of(scenario_from({"name": "file", "torch": params})), "dpor", schedules=200)


def rows(flow: BatchFlow, batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Returns for each rank the arguments of the agreement in a step, and its second dispatch by count and mode."""
    own = [batch if batch.num_tokens else flow.dummy_batch() for batch in batches]
    first = [flow.first_dispatch(one) for one in own]
    counts = {descriptor.num_tokens for _, descriptor in first}

    def second(batch: Batch, count: int, mode: RuntimeMode) -> tuple[str, int]:
        try:
            found, descriptor = flow.second_dispatch(batch, count, StepPlan(False, (count,), mode))
        except AssertionError:  # no such graph exists
            return "", 0
        return found.name, descriptor.num_tokens

    return [
        {
            "idle": not batch.num_tokens,
            "num_tokens_unpadded": mine.num_tokens,
            "num_tokens_padded": descriptor.num_tokens,
            "allow_microbatching": flow.may_split(mine),
            "allow_dp_padding": flow.wants_padding(),
            "uniform_decode": flow.uniform(mine),
            "cudagraph_mode": int(mode),
            "second": {f"{count} {int(one)}": second(mine, count, one) for count in counts for one in RuntimeMode},
        }
        for batch, mine, (mode, descriptor) in zip(batches, own, first, strict=True)
    ]


def compared(release: str, folder: Path, examples: int, form: str = "") -> Counter[Verdict]:
    """Returns how often each verdict occurred. Raises AssertionError for a world in which file and model differ."""
    form = form or FORMS[release]
    fits = [one for one in MISTAKES if form != "0.14" or one not in OF_PAGE_000]
    came: Counter[Verdict] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn_worlds(), st.sampled_from(fits))
    def run(drawn: Drawn, mistake: str) -> None:
        played = drawn.play(step=MISTAKES[mistake], **released(form))
        file = of_file(played, release, mistake, folder)
        mine, its = verdict(of_model(played)), verdict(file, 1)
        came[its] += 1
        assert its == mine, (drawn, mistake)
        culprit = file.findings[0].culprit if its.klass.startswith("HANG") else None
        assert culprit is None or "vllm/v1/worker/dp_utils.py:" in culprit.where

    run()
    return came


@pytest.mark.nightly
def test_the_model_of_another_release_differs(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        compared("0.33.0", tmp_path, 200, form="0.14")


@pytest.mark.nightly
@pytest.mark.parametrize("release", DIGESTS)
def test_a_file_and_the_model_say_the_same(release: str, tmp_path: Path) -> None:
    came = compared(release, tmp_path, 200)
    assert {"HANG:COLLECTIVE:MISSING_RANK", "DISAGREEMENT:PLAN"} <= {one.klass for one in came}
    assert sum(came.values()) >= 200
    assert came[Verdict("proven")] >= 60
