"""Tests the journal of a rank with several host threads: which numbers each thread counts by itself, and which the
whole rank counts.
"""

from __future__ import annotations

import pytest

from dpsim.backend.journal.injection import RankDied
from dpsim.backend.journal.issue import plan
from dpsim.backend.journal.journal import Journal, RankJournal
from dpsim.contract.events import host_word, visit_label
from dpsim.contract.ops import ADDRESS, INJECTED_WHAT, KIND, SEQ, STEP, WHERE, RawRecord
from dpsim.contract.world import At, Delay, Fault, World


class Host:
    """A stand-in for the calls of a backend. A record gets the line of the code that called one of these methods."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def sleep(self, site: str) -> int:
        return self.journal.note("sleep", site, (1,))

    def all_reduce(self, site: str) -> int:
        return self._collective(site)

    def _collective(self, site: str) -> int:
        return len(self.journal.collective("dp", plan("all_reduce", 1, "int32"), None, site))


def two(*planted: Fault | Delay) -> tuple[list[RawRecord], Host, Host]:
    """Returns the records of rank 0, and the hosts of its threads `main` and `b`. `planted`: the faults and delays of
    the world.
    """
    faults = tuple(one for one in planted if isinstance(one, Fault))
    records: list[RawRecord] = []
    world = World(1, (), faults, tuple(one for one in planted if isinstance(one, Delay)))
    shared = RankJournal(0, world, records.append)
    return records, Host(shared.thread()), Host(shared.thread("b"))


def test_each_thread_counts_its_own_visits_and_steps() -> None:
    records, main, b = two()
    main.journal.step = 4
    for host in (main, b, main):
        host.sleep("nap")
    assert [raw[ADDRESS] for raw in records] == [("main", "nap", 0), ("b", "nap", 0), ("main", "nap", 1)]
    assert [raw[STEP] for raw in records] == [4, -1, 4]


def test_the_rank_counts_its_calls_on_a_communicator() -> None:
    """All threads of a rank share the sequence numbers of a communicator. A backend matches collectives in the order of
    issue, whichever thread issues them.
    """
    records, main, b = two()
    for host in (main, b, main):
        host.all_reduce("agree")
    assert [raw[SEQ] for raw in records] == [0, 1, 2]


def test_every_record_names_the_line_of_the_call() -> None:
    records, main, _ = two()
    line = test_every_record_names_the_line_of_the_call.__code__.co_firstlineno
    main.sleep("nap")
    main.all_reduce("agree")
    assert [raw[WHERE] for raw in records] == [f"tests/backend/test_journal.py:{line + at}" for at in (3, 4)]


def test_a_planted_delay_or_death_hits_only_its_thread() -> None:
    records, main, b = two(Delay(0, At("nap", thread="b"), 7), Fault("die", 0, At("nap", 1, thread="b")))
    assert [main.sleep("nap"), b.sleep("nap"), main.sleep("nap")] == [0, 7, 0]
    with pytest.raises(RankDied):
        b.sleep("nap")
    planted = [(raw[ADDRESS], raw[INJECTED_WHAT]) for raw in records if raw[KIND] == "injected"]
    assert planted == [(("b", "nap", 0), "delay"), (("b", "nap", 1), "delay"), (("b", "nap", 1), "die")]


def test_a_skipped_call_uses_an_ordinal_and_no_sequence_number() -> None:
    records, main, _ = two(Fault("skip", 0, At("agree", 0)))
    assert [main.all_reduce("agree"), main.all_reduce("agree")] == [0, 1]
    assert [(raw[ADDRESS], raw[SEQ]) for raw in records if raw[KIND] == "collective"] == [(("main", "agree", 1), 0)]


@pytest.mark.parametrize("site", ["delivers m", "", "a\tb", "goes on #4"])
def test_a_site_is_a_word(site: str) -> None:
    """A site with a space is refused, because two different ops would get one label. The example is a visit of the site
    "delivers m" and the delivery of a message that was sent at "m".
    """
    _, main, _ = two()
    with pytest.raises(ValueError, match="a site is printable ASCII without spaces"):
        main.sleep(site)
    assert visit_label(0, "delivers m", 0) == visit_label(0, "m", 0, "delivers")


def test_each_thread_of_a_rank_has_its_own_labels() -> None:
    labels = {visit_label(host_word(0, thread), "poll", 0) for thread in ("main", "a", "b")}
    assert labels == {"rank 0 poll[0]", "rank 0/a poll[0]", "rank 0/b poll[0]"}
