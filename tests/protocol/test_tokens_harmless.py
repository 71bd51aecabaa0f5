"""What is called harmless, in all small worlds: 5,906 histories (1,902 to 5,577 where the scheduler is the mutant).

Each is proven by the run in which no send is eager. A random search may miss the one world that shows a mutant; a scope
that is gone through whole leaves nothing out up to its size. M-PP-13, hidden states and tokens on one communicator, is
looked at in every form: a deadlock is suspected there (specification 6.11). M-PP-12 is said to scramble the order of
steps; it does not.
"""

from __future__ import annotations

import pytest
from token_worlds import pieces, small_worlds

from dpsim.protocol.pipeline import TRANSFERS
from dpsim.protocol.requests import PipelineScheduler

HARMLESS = ["M-PP-3", "M-PP-12", "M-PP-18", "M-PS-8", "M-PS-12", "M-PS-15"]
CASES = [(name, "source-002") for name in HARMLESS] + [("M-PP-13", form) for form in TRANSFERS]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), CASES)
def test_nothing_in_any_small_world(name: str, form: str) -> None:
    changed = pieces(name)
    for drawn in small_worlds(form, changed.get("scheduler", PipelineScheduler)):
        assert drawn.play(eager=False, **changed).classes == [], drawn


def test_the_scope_shows_what_is_not_harmless() -> None:
    """One of the hard ones to find: generations that nobody looks at."""
    assert any(drawn.play(eager=False, **pieces("M-PP-1")).classes for drawn in small_worlds())
