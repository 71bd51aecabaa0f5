"""Compares the check of reused memory with all layouts of memory of random programs (`layouts`). Each planted mistake
in the rule has to make the comparison fail.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from dpsim.checks import judge
from dpsim.checks.memory.reuse import BlockPool, Reuse
from tests.checks.memory.layouts import Layouts, Verdict


def judged(program: Layouts) -> Verdict:
    """Returns the verdict of the checks, without findings about memory that no op wrote."""
    classes = {klass for klass in program.made.classes() if klass != "STALE:UNWRITTEN"}
    assert classes <= {"RACE:BUFFER", "RACE:REUSED_IN_FLIGHT", "STALE:REUSED_BLOCK"}
    return Verdict(any(klass.startswith("RACE") for klass in classes), "STALE:REUSED_BLOCK" in classes)


def agree(seed: int) -> str:
    """Compares the checks with the layouts for one program. Returns the verdict in a word. A stale access need not also
    be reported as a race.
    """
    program = Layouts(seed)
    if program.stuck():
        return "stuck"
    truth, came = program.verdict(), judged(program)
    assert came.stale == truth.stale, f"seed {seed}: in all layouts {truth}, the checks say {came}"
    assert came.race == truth.race or truth.stale, f"seed {seed}: {truth}, the checks say {came}"
    return "stale" if truth.stale else "racy" if truth.race else "neither"


def test_the_checks_agree_with_all_memory_layouts() -> None:
    said = Counter(agree(seed) for seed in range(400))
    assert min(said["racy"], said["neither"]) > 50
    assert said["stale"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(12))
def test_the_checks_agree_with_all_memory_layouts_of_thousands_of_programs(part: int) -> None:
    said = Counter(agree(seed) for seed in range(part * 700, part * 700 + 700))
    assert said.total() - said["stuck"] >= 500


# ---- faulty twins of the rule


def no_marks(rule: Any) -> None:
    freed = Reuse.freed
    rule.setattr(Reuse, "freed", lambda self, life, marks: freed(self, life, {}))


def marks_cover_their_own_stream(rule: Any) -> None:
    rule.setattr(Reuse, "_covers", lambda self, old, access: False)


def marks_cover_all(rule: Any) -> None:
    rule.setattr(Reuse, "_covers", lambda self, old, access: True)


def no_turns(rule: Any) -> None:
    rule.setattr(Reuse, "_may", lambda self, conflict: True)


def this_layout_only(rule: Any) -> None:
    """Each buffer has its own pool, so no buffer reuses memory."""
    taken, number = Reuse.taken, iter(range(10**9))
    rule.setattr(
        Reuse, "taken", lambda self, life, host, home, small: taken(self, life, host, str(next(number)), small)
    )


def handed_out_is_forgotten(rule: Any) -> None:
    look = Reuse._look

    def once(self: Reuse, new: Any, pool: BlockPool, write: Any, clock: Any) -> None:
        look(self, new, pool, write, clock)
        pool.left.clear()

    rule.setattr(Reuse, "_look", once)


def late_is_forgotten(rule: Any) -> None:
    rule.setattr(Reuse, "late", lambda self, life, access: None)


def one_pool(rule: Any) -> None:
    taken = Reuse.taken
    rule.setattr(Reuse, "taken", lambda self, life, host, home, small: taken(self, life, host, home, True))


MISTAKES = [
    no_marks,
    marks_cover_their_own_stream,
    marks_cover_all,
    no_turns,
    this_layout_only,
    handed_out_is_forgotten,
    late_is_forgotten,
    one_pool,
]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_rule_is_noticed(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    monkeypatch.setattr(judge, "certified", lambda *_: frozenset())  # no certificate hides a finding
    with pytest.raises(AssertionError, match="the checks say"):
        Counter(map(agree, range(3_000)))
