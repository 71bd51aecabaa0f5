"""Tests of comparing runs: equal runs have no difference, and the message names the first difference of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.contract.ops import KIND, SEQ, RawRecord
from dpsim.contract.world import Run
from dpsim.trace import Difference, Trace, TraceError, compare, digest, fold, read_trace, scenario_changes, write_trace
from tests.records import all_reduce, changed, raw
from tests.trace.runs import find, records, simulate

Edited = Callable[[int, Callable[[list[RawRecord]], object]], Run]


def first(a: Run, b: Run) -> Difference:
    difference = compare(Trace.of(a), Trace.of(b))
    assert difference is not None
    return difference


def journal_of(run: Run, rank: int = 1) -> list[RawRecord]:
    return run.journals[rank]


# ---- equal


def test_a_run_is_equal_to_itself_and_to_its_trace(healthy: Run, hung: Run, tmp_path: Path) -> None:
    for run in (healthy, hung):
        write_trace(tmp_path / "x", run, scenario={}, verdict="held", klass=None)
        assert compare(Trace.of(run), read_trace(tmp_path / "x")) is None


def test_time_places_backend_and_injections_make_no_difference(healthy: Run) -> None:
    journals = [[raw("injected", "x", what="delay"), *journal] for journal in healthy.journals]
    journals = [[changed(record, where="moved.py:1") for record in journal] for journal in journals]
    other = replace(healthy, journals=journals, backend="nccl", elapsed_ns=1, waited_ns=[9, 9, 9], versions={})
    assert compare(Trace.of(healthy), Trace.of(other)) is None


@given(st.lists(st.lists(records(), max_size=3), min_size=2, max_size=2))
def test_equal_exactly_if_the_digests_are(journals: list[list[RawRecord]]) -> None:
    """Compares random journals in all orders. Two runs are equal exactly if their digests are. The journals have one
    thread, because records of several threads may be in any order.
    """
    alone = [[changed(one, thread="main") for one in journal] for journal in journals]
    runs = [Run("any", [journal], ["finished"], [0], 0) for journal in alone]
    equal = digest(runs[0].journals) == digest(runs[1].journals)
    for a, b in permutations(runs):
        assert (compare(Trace.of(a), Trace.of(b)) is None) == equal


# ---- planted differences


def test_compare_finds_another_decision(healthy: Run, edited: Edited) -> None:
    def change(journal: list[RawRecord]) -> None:
        at = find(journal, "decision", 2, "plan")
        journal[at] = changed(journal[at], value=(8, 8, 4))

    found = first(healthy, edited(1, change))
    assert (found.rank, found.actor, found.index, found.step) == (1, "decisions plan", 2, 2)
    assert "decided (8, 8, 4)" in found.b
    assert "at tests/protocols.py:" in found.a
    assert found.meaning == (
        "rank 1 learned the same before but decided otherwise: another configuration, form or variant?"
    )
    assert found.ends == ()


def test_compare_finds_a_missing_collective(healthy: Run, edited: Edited) -> None:
    found = first(healthy, edited(1, lambda journal: journal.pop(find(journal, "collective", 2, "dp.agree"))))
    assert (found.rank, found.actor, found.index, found.step) == (1, "communicator dp_cpu", 2, 2)
    assert found.a.startswith("step 2  dp.agree[2]  all_reduce int32[3] on dp_cpu #2  at tests/")
    assert found.b.startswith("step 3  dp.agree[3]")
    assert found.meaning == "B's rank 1 has one all_reduce fewer on dp_cpu from step 2 on"


def test_compare_finds_a_surplus_collective(healthy: Run, edited: Edited) -> None:
    def change(journal: list[RawRecord]) -> None:
        at = find(journal, "collective", 2, "dp.agree")
        journal[at:at] = [journal[at]] * 2

    found = first(healthy, edited(1, change))
    assert found.meaning == "B's rank 1 has 2 all_reduces more on dp_cpu from step 2 on"
    assert first(edited(1, change), healthy).meaning == "B's rank 1 has 2 all_reduces fewer on dp_cpu from step 2 on"


def test_compare_finds_a_collective_with_other_arguments(healthy: Run, edited: Edited) -> None:
    def change(journal: list[RawRecord]) -> None:
        at = find(journal, "collective", 3, "experts.combine")
        journal[at] = changed(journal[at], count=99, dtype="int64")

    found = first(healthy, edited(2, change))
    assert (found.rank, found.actor, found.step) == (2, "communicator ep", 3)
    assert found.meaning == "rank 2 makes the op with another count (A: 8, B: 99), dtype (A: 'int32', B: 'int64')"


def test_compare_finds_another_order_on_a_stream(healthy: Run, edited: Edited) -> None:
    def change(journal: list[RawRecord]) -> None:
        at = find(journal, "alloc", 3, "experts.buffer")
        journal[at], journal[at + 1] = journal[at + 1], journal[at]

    found = first(healthy, edited(0, change))
    assert (found.rank, found.actor, found.step) == (0, "stream main", 3)
    assert found.meaning == "rank 0 does something else in step 3"


def test_compare_finds_another_order_on_a_communicator(healthy: Run) -> None:
    def run(sites: list[str]) -> Run:
        journal = [all_reduce(site, "dp_cpu", seq) for seq, site in enumerate(sites)]
        return Run("sim", [journal], ["finished"], [0], 0)

    found = first(run(["a", "b", "c"]), run(["b", "a", "c"]))
    assert (found.index, found.meaning) == (0, "rank 0 makes the same ops in step 0, in another order")


def test_compare_finds_a_missing_kernel(healthy: Run, edited: Edited) -> None:
    found = first(healthy, edited(0, lambda journal: journal.pop(find(journal, "launch", 1, "attention"))))
    assert found.meaning == "B's rank 0 has one op fewer on stream main from step 1 on"


def test_compare_finds_another_outcome_of_a_call(healthy: Run, edited: Edited) -> None:
    def change(journal: list[RawRecord]) -> None:
        at = find(journal, "learned", 2, "dp.agree")
        journal[at] = changed(journal[at], outcome=0xBAD)

    found = first(healthy, edited(1, change))
    assert (found.rank, found.actor, found.step) == (1, "outcomes", 2)
    assert "result 00000bad" in found.b
    assert "some rank brought other data" in found.meaning


def test_compare_finds_a_missing_tail(healthy: Run, edited: Edited) -> None:
    cut = edited(1, lambda journal: journal.__delitem__(slice(find(journal, "collective", 4, "dp.agree"), None)))
    cut = replace(cut, ends=["blocked", "died", "blocked"], observed="no rank moved for 5 s")
    found = first(healthy, cut)
    assert (found.rank, found.actor, found.step) == (1, "communicator dp_cpu", 4)
    assert found.b == "nothing; rank 1 died"
    assert found.meaning == "B ends earlier than A: there, rank 1 died, in step 4"
    assert found.ends == ("B did not finish: rank 1 died; ranks 0, 2 blocked (no rank moved for 5 s)",)
    assert first(cut, healthy).meaning == "A ends earlier than B: there, rank 1 died, in step 4"


def test_compare_finds_a_missing_last_record(healthy: Run, edited: Edited) -> None:
    cut = replace(edited(2, lambda journal: journal.__delitem__(-1)), ends=["finished", "finished", "blocked"])
    found = first(healthy, cut)
    assert (found.rank, found.actor) == (2, "thread main")
    assert found.meaning.startswith("B ends earlier than A: there, rank 2 is blocked")


def test_the_earliest_of_several_differences_is_named(healthy: Run, edited: Edited) -> None:
    def spoil(step: int) -> Callable[[list[RawRecord]], None]:
        def change(journal: list[RawRecord]) -> None:
            at = find(journal, "decision", step, "mode")
            journal[at] = changed(journal[at], value="OTHER")

        return change

    late, early = edited(0, spoil(4)), edited(2, spoil(1))
    both = replace(healthy, journals=[late.journals[0], healthy.journals[1], early.journals[2]])
    assert (first(healthy, both).rank, first(healthy, both).step) == (2, 1)


def test_compare_finds_another_number_of_ranks(healthy: Run) -> None:
    other = replace(healthy, journals=healthy.journals[:2], ends=healthy.ends[:2], waited_ns=healthy.waited_ns[:2])
    assert str(first(healthy, other)).splitlines()[:3] == [
        "first difference: the number of ranks",
        "  A  3 ranks",
        "  B  2 ranks",
    ]


def test_compare_finds_equal_values_of_another_type() -> None:
    runs = [
        Run("x", [[raw("decision", "d", communicator="g", value=value)]], ["finished"], [0], 0) for value in (1, True)
    ]
    assert "true is not 1" in first(*runs).meaning


# ---- runs with faults


def test_compare_finds_a_skipped_agreement(healthy: Run, hung: Run) -> None:
    found = first(healthy, hung)
    assert str(found) == (
        "first difference: rank 1, communicator dp_cpu, op 2, in step 2\n"
        f"  A  step 2  dp.agree[2]  all_reduce int32[3] on dp_cpu #2  at {place('dp.agree')}\n"
        "  B  nothing; rank 1 is blocked at its end\n"
        "  B's rank 1 has one all_reduce fewer on dp_cpu from step 2 on\n"
        "B did not finish: ranks 0 to 2 blocked (no rank can make progress)"
    )


def place(site: str) -> str:
    trace = Trace.of(simulate())
    list(trace.journals())
    return trace.place("collective", site)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (("repeat", 1, "dp.agree", 2), "B's rank 1 has one all_reduce more on dp_cpu from step 2 on"),
        (("die", 1, "dp.agree", 2), "B ends earlier than A: there, rank 1 died, in step 2"),
        (("skip", 2, "experts.combine", 3), "B's rank 2 has one all_reduce fewer on ep from step 3 on"),
    ],
)
def test_compare_explains_each_kind_of_fault(fault: tuple[str, int, str, int], said: str, healthy: Run) -> None:
    found = first(healthy, simulate(fault))
    assert (found.rank, found.meaning) == (fault[1], said)


def test_compare_explains_a_crash(crashed: Run) -> None:
    found = first(simulate(tokens=(5, 0, 0)), crashed)
    assert (found.rank, found.step) == (1, 0)
    assert found.meaning.startswith(
        "B ends earlier than A: there, rank 1 raised: no batch is padded to 5 agreed tokens"
    )
    assert found.ends == ("B did not finish: ranks 1, 2 raised; rank 0 blocked (no rank can make progress)",)


# ---- reading, and scenarios


def test_a_changed_trace_is_no_difference_but_an_error(healthy: Run, hung: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    write_trace(good, healthy, scenario={}, verdict="held", klass=None)
    for run in (healthy, hung):
        write_trace(bad, run, scenario={}, verdict="held", klass=None)
        bad.write_bytes(bad.read_bytes().replace(b'"step":1', b'"step":0', 1))
        for a, b in permutations([good, bad]):
            with pytest.raises(TraceError, match="bad: the body was changed"):
                compare(read_trace(a), read_trace(b))


def test_differences_of_scenarios() -> None:
    a = {"name": "x", "config": {"enable_dbo": True, "sizes": [1, 2]}, "faults": []}
    b = {"name": "x", "config": {"enable_dbo": False, "sizes": [1, 3]}, "faults": [{"kind": "skip"}], "more": 1}
    assert scenario_changes(a, a) == []
    assert scenario_changes(a, b) == [
        "config.enable_dbo: A has True, B has False",
        "config.sizes[1]: A has 2, B has 3",
        "faults: A has [], B has [{'kind': 'skip'}]",
        "more: A has nothing, B has 1",
    ]


def test_folds_group_the_records_by_communicator_stream_and_label(healthy: Run) -> None:
    journal = journal_of(healthy)
    groups = fold.communicators(journal)
    assert list(groups) == ["dp_cpu", "ep"]
    assert [record[SEQ] for record in groups["ep"]] == list(range(len(groups["ep"])))
    assert {record[KIND] for record in fold.streams(journal)["main"]} == {
        "alloc",
        "launch",
        "collective",
        "read",
        "free",
    }
    assert list(fold.decisions(journal)) == ["plan", "mode", "experts"]
    assert all(record[KIND] == "learned" for record in fold.outcomes(journal))
