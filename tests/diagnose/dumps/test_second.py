"""Tests of stuck pairs of ranks. A second pair with the same roles, or a second group of the kind, decides which rank
is the culprit.
"""

from __future__ import annotations

from tests.diagnose.dumps.made import MadeJob

PAIRS = {"tp.0": (0, 1), "tp.1": (2, 3)}


def job(first: list[int], second: list[int], calls: int = 5) -> MadeJob:
    """Returns a job of two pairs that make five calls each, or `calls` on the second pair. Then these ranks make one
    more.
    """
    made = MadeJob(4, groups=PAIRS)
    for _ in range(5):
        made.call([0, 1], group="tp.0")
    for _ in range(calls):
        made.call([2, 3], group="tp.1")
    made.call(first, group="tp.0")
    made.call(second, group="tp.1")
    return made


def test_a_call_that_the_other_group_made_is_missing() -> None:
    found = job([0], [2, 3]).explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("HANG:COLLECTIVE:MISSING_RANK", (1,))


def test_a_call_that_the_other_group_did_not_make_is_extra() -> None:
    found = job([0], []).explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("HANG:COLLECTIVE:EXTRA_CALL", (0,))


def test_a_group_with_other_calls_before_decides_nothing() -> None:
    assert not [line for line in job([0], [], 3).explained().ground if "the same calls before" in line]


def test_a_group_that_hangs_in_another_call_decides_nothing() -> None:
    """Checks that the other group decides nothing if it is stuck in another call, perhaps for the same reason."""
    made = job([0], [])
    made.call([2], line=30)
    assert not [line for line in made.explained().ground if "the same calls before" in line]


def sends(last: bool) -> MadeJob:
    """Rank 0 sends to 1, and 2 to 3. Then rank 0 sends once more, but rank 1 does not receive; 2 sends again if
    `last`.
    """
    made = MadeJob(4)
    for _ in range(3):
        made.transfer(0, 1)
        made.transfer(2, 3)
    made.transfer(0, 1, sides="send")
    if last:
        made.transfer(2, 3)
    return made


def test_a_transfer_that_its_twins_made() -> None:
    found = sends(True).explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("HANG:P2P:UNMATCHED_SEND", (1,))


def test_a_transfer_that_its_twins_did_not_make() -> None:
    found = sends(False).explained()
    assert found.culprit is not None
    assert (found.klass, found.culprit.ranks) == ("HANG:P2P:UNMATCHED_SEND", (0,))
