"""Tests the times of a run with time: when each record was written, and when a stream ended each op. A run without time
has none.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, SITE
from dpsim.contract.world import Run
from dpsim.sim.graph.costs import REFERENCE
from dpsim.sim.hosts.record_times import RecordTimes
from tests.programs import run, world_of


def kernel(*_: object) -> None:
    """A kernel that does nothing."""


async def script(rank: Rank) -> None:
    main, other = rank.stream("main"), rank.stream("other")
    x = main.alloc(4, "int32", "x")
    main.launch("first", kernel, writes=[x])
    main.launch("second", kernel, writes=[x])
    await rank.host("h").all_reduce(np.ones(1, np.int32), site="agree")
    with rank.device("d").coalesced(main):
        for peer in range(2):
            if peer != rank.rank:
                rank.device("d").send(x, peer, main, site="send")
                rank.device("d").recv(x, peer, main, site="recv")
    other.launch("third", kernel)


def times(done: Run, rank: int = 0) -> dict[str, tuple[int, int | None]]:
    own = done.times[rank]
    return {
        raw[SITE]: (own.written[at], own.over.get(at))
        for at, raw in enumerate(done.journals[rank])
        if raw[KIND] != "learned"
    }


@pytest.fixture
def done() -> Run:
    return run(world_of(2, ["h"], ["d"], times=True), script)


def test_each_record_has_a_time_and_each_op_of_a_stream_an_end(done: Run) -> None:
    found, cost = times(done), REFERENCE
    assert found["first"] == (0, cost.kernel)
    assert found["second"] == (0, 2 * cost.kernel)
    agreed = cost.on_host(2, 4)
    assert found["agree"] == (0, None)
    assert found["third"] == (agreed, agreed + cost.kernel)
    assert found["send"] == found["recv"]
    assert found["send"][0] == agreed
    assert (found["send"][1] or 0) >= agreed + cost.device_transfer
    assert all(len(own.written) == len(journal) for own, journal in zip(done.times, done.journals, strict=True))


def test_twin_transfers_of_one_group_get_different_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: it takes the op at the stream's end before the coalesced group is closed. So the transfers of
    the group get different times.
    """
    close = RecordTimes._close
    monkeypatch.setattr(RecordTimes, "_close", lambda self, _: close(self, None))
    found = times(run(world_of(2, ["h"], ["d"], times=True), script))
    assert found["send"] != found["recv"]


@pytest.mark.parametrize(("timed", "wanted"), [(False, True), (True, False)])
def test_a_run_without_time_or_without_the_option_has_no_record_times(timed: bool, wanted: bool) -> None:
    settings = {} if timed else {"choose": lambda *_: 0}
    assert run(world_of(2, ["h"], ["d"], times=wanted), script, **settings).times == ()
