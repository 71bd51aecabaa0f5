"""Tests that a mistake changes one call, and that nothing else in the records shows who made it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from dpsim.backend.calls.rank import JournaledRank
from dpsim.contract.interface import Rank
from dpsim.contract.ops import (
    COMMUNICATOR,
    KIND,
    POST_MAILBOX,
    POST_TO,
    SITE,
    STORE_KEY,
    TRANSFER_PEER,
    WHERE,
    RawRecord,
)
from dpsim.contract.world import At
from tests.blame import bent
from tests.blame.bent import Bend, bent_run
from tests.blame.cases import run_of
from tests.blame.drawn import ALL, drawn, group


async def script(rank: Rank) -> None:
    store = await (rank.open_store(29_500, "open") if rank.rank == 0 else rank.join_store(0, 29_500, "join"))
    assert store is not None
    for rank.step in range(3):
        rank.send((rank.rank + 1) % 3, "box", rank.step, "note.post")
        store.set(f"{rank.step}/{rank.rank}", 1, "key.set")
        rank.flag("ready").set("ready.set")
        rank.host(ALL).send(np.zeros(1, np.int32), (rank.rank + 1) % 3, site="piece.send")
        await rank.host(ALL).barrier(site="meet")


PROGRAM = drawn(3, script, [group("other", range(3))])
HEALTHY = run_of(PROGRAM)


def mistaken(kind: str, site: str, change: dict[str, Any]) -> tuple[list[RawRecord], list[RawRecord]]:
    """Returns the records of rank 1 at the site, without and with the mistake at its call of step 1."""
    before = [raw for raw in HEALTHY.journals[1] if raw[SITE] == site and raw[KIND] != "learned"]
    run, applied = bent_run(PROGRAM, Bend(kind, 1, At(site, 1), change), before[1], HEALTHY)
    assert applied
    assert [run.journals[0][:6], run.journals[2][:6]] == [HEALTHY.journals[0][:6], HEALTHY.journals[2][:6]]
    return before, [raw for raw in run.journals[1] if raw[SITE] == site and raw[KIND] != "learned"]


@pytest.mark.parametrize(
    ("kind", "site", "change", "field", "value"),
    [
        ("receiver", "note.post", {"to": 0}, POST_TO, 0),
        ("mailbox", "note.post", {"mailbox": "old"}, POST_MAILBOX, "old"),
        ("key", "key.set", {"key": "0/0"}, STORE_KEY, "0/0"),
        ("peer", "piece.send", {"to": 0}, TRANSFER_PEER, 0),
        ("group", "meet", {"kind": "other"}, COMMUNICATOR, "other[0,1,2].host"),
    ],
)
def test_one_call_has_another_argument_and_its_usual_place(
    kind: str, site: str, change: dict[str, Any], field: int, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = mistaken(kind, site, change)
    assert before[1][field] != after[1][field] == value
    assert [raw[:6] for raw in after] == [raw[:6] for raw in before[: len(after)]]
    monkeypatch.setattr(bent, "_placed", lambda site, where: nullcontext())
    _, unplaced = mistaken(kind, site, change)
    assert unplaced[1][WHERE] != before[1][WHERE], "faulty twin: a call below another frame has another place"


@pytest.mark.parametrize(("kind", "site", "calls"), [("lost", "ready.set", 2), ("twice", "note.post", 4)])
def test_one_call_is_left_out_or_made_twice(kind: str, site: str, calls: int) -> None:
    before, after = mistaken(kind, site, {})
    assert (len(before), len(after)) == (3, calls)
    assert {raw[WHERE] for raw in after} == {raw[WHERE] for raw in before}
    assert [raw[4] for raw in after] == list(range(calls))


def test_a_mistake_at_another_site_is_refused() -> None:
    """The number of the call and its site have to fit, or the truth of a case would be wrong."""
    raw = next(raw for raw in HEALTHY.journals[1] if raw[SITE] == "note.post")
    with pytest.raises(AssertionError, match="would change the call at note"):
        bent._Change(Rank.send, Bend("lost", 1, At("else.post", 0)), raw[WHERE], 0, {})._call(
            None, 0, "box", 1, "note.post"
        )


def test_the_classes_of_the_simulation_stay_as_they_were() -> None:
    before = vars(JournaledRank)["send"]
    mistaken("lost", "note.post", {})
    assert vars(JournaledRank)["send"] is before
    assert run_of(PROGRAM).journals == HEALTHY.journals
