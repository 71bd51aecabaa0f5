"""Tests the report that lists where each host thread of each rank is, computed from the journals."""

from __future__ import annotations

from dpsim.backend.journal.whereabouts import whereabouts
from dpsim.contract.interface import NO_STEP
from tests.records import raw


def test_each_host_thread_that_has_not_ended_has_a_place() -> None:
    start = raw("thread", "u1.start", name="u1", how="start", where="a.py:1")
    wait = raw("flag", "turn", thread="u1", flag="baton", how="wait", where="a.py:2")
    join = raw("thread", "join", name="u1", how="join", where="a.py:3")
    ended = raw("ended", "end", thread="u1", message="")
    waits = "in step 0: wait flag baton at turn[0], a.py:2"
    joins = "in step 0: join thread u1 at join[0], a.py:3"
    assert whereabouts([[start, wait, join]]) == f"rank 0 {joins}\nrank 0 (u1) {waits}"
    assert whereabouts([[start, join]]) == f"rank 0 {joins}\nrank 0 (u1) before the first op"
    assert whereabouts([[start, wait, join, ended]] * 2) == f"ranks 0, 1 {joins}"
    early, late = (
        raw("flag", "turn", step=-1, flag="f", how="wait"),
        raw("flag", "turn", step=NO_STEP, flag="f", how="wait"),
    )
    assert whereabouts([[early], [late]]).startswith("rank 0 before its first step: wait flag f")
    assert "rank 1 in no step: wait flag f" in whereabouts([[early], [late]])
    assert whereabouts([[start, ended, join, raw("finished", "end")]]) == "rank 0 ended"
