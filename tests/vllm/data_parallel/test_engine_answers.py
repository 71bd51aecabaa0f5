"""Compares the model with stored answers of vLLM's own code, row by row, for three releases.

A row contains inputs and the engine's answer to them (tools/engine/dpsim_engine/answers/README.md). Rows of `decide`
test the batch agreement only. Rows of `flow` test the V1 runner from the batch to the agreed graph. The tests compare
every row. For each comparison, faulty twins with one mistake prove that it fails on wrong answers.
"""

from __future__ import annotations

from collections import Counter

import pytest

from dpsim.contract.interface import HostArray
from dpsim.vllm.config import RuntimeMode
from dpsim.vllm.data_parallel.batch import BatchForm, LocalBatch, Release014, Source000, StepPlan
from dpsim.vllm.data_parallel.flow import BatchFlow, Flow014, Flow017, Flow033
from dpsim.vllm.data_parallel.timeline import Batch
from dpsim.vllm.graphs.dispatcher import ALL_MODES, Descriptor
from dpsim_engine.comparison import Difference, Row, differing
from dpsim_engine.decide import DECIDE
from dpsim_engine.flow import FLOW, Flow
from dpsim_engine.stored import answers
from tests.vllm.released import AGREEMENTS, DISPATCHERS, FLOWS

RELEASED = {"0.14.0": "0.14", "0.17.0": "source-000", "0.33.0": "0.33"}

# ---- decide: the agreement alone


def decided(version: str, form: BatchForm) -> list[Difference]:
    return differing(DECIDE, answers("decide", version), form)


@pytest.mark.parametrize("version", RELEASED)
def test_the_agreement_decides_every_stored_row_as_vllm(version: str) -> None:
    """The agreement decides every stored row as vLLM does."""
    assert decided(version, AGREEMENTS[RELEASED[version]]()) == []


class AllRefuse(Release014):
    """Ranks that do not want padding raise, too, if another rank wants it."""

    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        super().refuse(table, local._replace(wants_padding=bool(table[3].any())))


class NoRankRefuses(Release014):
    """No rank raises if the ranks differ in their wish for padding."""

    def refuse(self, table: HostArray, local: LocalBatch) -> None:
        return


@pytest.mark.parametrize(
    ("version", "wrong"), [("0.14.0", AllRefuse), ("0.14.0", NoRankRefuses), ("0.14.0", Source000)]
)
def test_the_stored_rows_of_decide_find_wrong_agreements(version: str, wrong: type[BatchForm]) -> None:
    """The comparison with the stored rows fails for each wrong agreement."""
    assert decided(version, wrong())


# ---- flow: from the batch to the agreed graph


def flowed(version: str, flow: Flow) -> list[Difference]:
    return differing(FLOW, answers("flow", version), flow)


def flow_of(version: str, flow: type[BatchFlow], graphs: str = "") -> Flow:
    """Returns a flow with the agreement and the graphs of a release. `graphs` takes the graphs of another version."""
    return AGREEMENTS[RELEASED[version]], DISPATCHERS[(graphs or version).removesuffix(".0")], flow


@pytest.mark.parametrize("version", RELEASED)
def test_the_flow_reaches_the_agreed_graph_of_every_stored_row(version: str) -> None:
    """The way from the batch to the agreed graph equals that of vLLM in every stored row."""
    assert flowed(version, flow_of(version, FLOWS[RELEASED[version]])) == []


class NeverForced(Flow017):
    """A rank ignores that its batch is forced to count as uniform decodes."""

    def uniform(self, batch: Batch) -> bool:
        return super().uniform(batch._replace(forced_uniform=False))


class FullForCascades(Flow017):
    """A rank allows a FULL graph for a batch with cascade attention."""

    def forbids_full(self, batch: Batch) -> bool:
        return batch.encoder_reqs > 0


class FullForEncoders(Flow033):
    """A rank allows a FULL graph for a batch with encoder inputs."""

    def forbids_full(self, batch: Batch) -> bool:
        return False


class MaySplitAlways(Flow033):
    """A rank always allows microbatches, whatever its batch contains."""

    def may_split(self, batch: Batch) -> bool:
        return True


class ForgetsThatItIsEager(Flow014):
    """The second dispatch forgets that the batch has to run eagerly, and selects a graph."""

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return super().second_dispatch(batch._replace(force_eager=False), agreed, plan)


class ForbidsAgain(Flow017):
    """The second dispatch may choose every mode, not only the agreed mode."""

    def second_dispatch(self, batch: Batch, agreed: int, plan: StepPlan) -> tuple[RuntimeMode, Descriptor]:
        return self.dispatch(batch, agreed, ALL_MODES)


@pytest.mark.parametrize(
    ("version", "wrong"),
    [
        ("0.17.0", NeverForced),
        ("0.17.0", FullForCascades),
        ("0.17.0", ForbidsAgain),
        ("0.17.0", Flow033),
        ("0.14.0", ForgetsThatItIsEager),
        ("0.33.0", FullForEncoders),
        ("0.33.0", MaySplitAlways),
        ("0.33.0", Flow017),
    ],
)
def test_the_stored_rows_of_flow_find_wrong_flows(version: str, wrong: type[BatchFlow]) -> None:
    """The comparison with the stored rows fails for each wrong flow."""
    assert flowed(version, flow_of(version, wrong))


@pytest.mark.parametrize(
    ("version", "graphs"), [("0.17.0", "0.14.0"), ("0.17.0", "0.33.0"), ("0.14.0", "0.17.0"), ("0.33.0", "0.17.0")]
)
def test_flow_finds_the_graphs_of_another_release(version: str, graphs: str) -> None:
    """The comparison with the stored rows fails for the dispatcher of another release."""
    assert flowed(version, flow_of(version, FLOWS[RELEASED[version]], graphs))


def test_the_rows_reach_what_they_are_for() -> None:
    """The stored rows contain each kind of case often enough, so that the comparisons above can fail.

    There are dummies of one token where a decode has more, batches that may not have a FULL graph, and splits. In some
    groups, only some of the ranks raise an assertion.
    """
    seen: Counter[str] = Counter()
    for row in answers("flow"):
        for rank, answer in zip(row["ranks"], row["answers"], strict=True):
            seen["one-token dummy"] += bool(rank["force_uniform_decode"]) and 1 == rank["num_tokens"] < query_len(row)
            seen["cascade"] += rank["use_cascade_attn"]
            seen["encoder"] += rank["num_encoder_reqs"] > 0
            seen["forced eager"] += rank["force_eager"]
            seen["may not split"] += not rank["allow_microbatching"]
            seen["split"] += answer.get("ubatch", False)
        seen["some raise"] += 0 < sum("raises" in answer for answer in row["answers"]) < len(row["ranks"])
    assert seen.pop("some raise") > 1
    assert min(seen.values()) > 100, seen


def query_len(row: Row) -> int:
    return int(row["config"]["query_len"])
