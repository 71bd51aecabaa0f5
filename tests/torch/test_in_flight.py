"""Tests of tensors that a program uses between a call and its `wait`: dpsim finds a change, and assumes that there is
no read.
"""

from __future__ import annotations

import pytest

from dpsim.campaign.assumptions import transport
from dpsim.diagnose.words import text
from dpsim.torch.program import NO_EARLY_READ
from tests.torch.runs import PROGRAMS, blamed, explored

torch = pytest.importorskip("torch")

FOUND = "CRASH:WRITTENINFLIGHT"
CHANGES = ("what_it_receives", "what_it_reduces", "it_before_a_look")
LINES = (PROGRAMS / "in_flight.py").read_text().splitlines()


def test_a_change_of_what_a_rank_sends_is_found_and_its_twin_is_proven() -> None:
    assert explored("in_flight.py:waits_first", 2).verdict == "proven"
    twin = explored("in_flight.py:changes_what_it_sends", 2)
    klass, ranks, where = blamed(twin)
    assert (klass, ranks) == (FOUND, (1,))
    assert LINES[int(where.rpartition(":")[2]) - 1].strip() == "sent.wait()"
    number = next(number for number, line in enumerate(LINES, 1) if "dist.isend" in line)
    assert f"changed a tensor of send at tests/torch/programs/in_flight.py:{number}" in text(twin.findings[0].message)


def test_the_calls_of_a_batch_are_in_one_step() -> None:
    """Otherwise the missing calls of the rank that raises would seem to be of other steps, without a culprit."""
    assert blamed(explored("in_flight.py:changes_it_in_a_batch", 2))[:2] == (FOUND, (1,))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["gloo", "nccl"])
@pytest.mark.parametrize("changes", CHANGES)
def test_a_change_of_the_tensor_of_each_kind_of_call_is_found(changes: str, order: str) -> None:
    assert blamed(explored(f"in_flight.py:changes_{changes}", 2, order=order))[:2] == (FOUND, (1,))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["writes_beside_it", "reduces_twice"])
def test_a_write_beside_it_and_a_fill_of_dpsim_are_no_finding(name: str) -> None:
    assert explored(f"in_flight.py:{name}", 2).verdict == "proven"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "said"), [("reads_early", True), ("only_blocks", False)])
def test_a_proof_with_asynchronous_calls_assumes_that_no_rank_reads_early(name: str, said: bool) -> None:
    found = explored(f"in_flight.py:{name}", 2)
    assert (found.verdict, NO_EARLY_READ in found.assumes) == ("proven", said)


def test_the_table_of_assumptions_has_the_words_of_the_program() -> None:
    assert transport.NO_EARLY_READ == NO_EARLY_READ


def test_the_contents_of_the_memory_at_the_call_decide() -> None:
    from dpsim.torch.child.in_flight import TensorsInFlight, WrittenInFlight

    whole = torch.zeros(4, 2).clone()
    for changes in (whole[1].add_, whole[1].data.add_, lambda one: whole[1].numpy().__iadd__(one)):
        flight = TensorsInFlight("send", [whole[1]])
        changes(1)
        with pytest.raises(WrittenInFlight, match="changed a tensor of send at "):
            flight.check()
    whole = torch.zeros(4, 2)
    for healthy in (whole[2].add_, whole[1].mul_, lambda one: whole.resize_(1_000, 2)):
        flight = TensorsInFlight("send", [whole[1]])
        healthy(1)
        flight.check()


def test_a_fill_of_overlapping_memory_counts_as_no_change() -> None:
    from dpsim.torch.child.in_flight import TensorsInFlight, WrittenInFlight

    whole = torch.zeros(6)
    first, second, beside = (
        TensorsInFlight("recv", [whole[:3]]),
        *(TensorsInFlight("recv", [part]) for part in (whole[2:4], whole[4:])),
    )
    whole += 1  # by dpsim in `first`; by the program in `beside`
    first.filled()
    second.check()
    with pytest.raises(WrittenInFlight):
        beside.check()
