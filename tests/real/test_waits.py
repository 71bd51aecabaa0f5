"""Tests of waits with and without an end: mailboxes, sleeps, transfers, and a failure on one of two streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpsim.contract.ops import MAIN, SITE, RawRecord
from dpsim.contract.world import End, Run, World
from real.backend import TorchBackend
from real.journal_file import JournalFile
from real.journal_reader import Unmoving, unmoving_state
from tests.real import programs  # noqa: F401  # registers the test programs
from tests.real.worlds import NCCL
from tests.records import all_reduce, raw

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

reusable = pytest.mark.parametrize("backend", ["aborting", NCCL], indirect=True)


def wait(backend: TorchBackend, world: World, how: str, others: str, stall_ns: int = 1_000_000_000) -> Run:
    return backend.run(replace(world, stall_ns=stall_ns), "real_waits", {"how": how, "others": others})


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
def test_a_rank_in_an_idle_get_has_finished(backend: TorchBackend, world: World) -> None:
    assert wait(backend, world, "idles", "idles").finished  # the workers have started
    before = backend.pool.processes
    run = wait(backend, world, "idles", "ends", stall_ns=60_000_000_000)
    assert (run.ends, run.observed) == (["finished", "finished"], "")
    assert run.journals[1][-1][0] == "take"  # the get did not return, and the program has not ended
    assert run.elapsed_ns < 20_000_000_000
    assert backend.pool.processes == before


@reusable
@pytest.mark.parametrize(
    ("how", "others", "ends"),
    [
        ("gets", "idles", ["finished", "blocked"]),  # an idle rank is no culprit
        pytest.param("idles_before_a_stuck_stream", "ends", ["finished", "blocked"], marks=pytest.mark.slow),
        pytest.param("sends", "ends", ["finished", "blocked"], marks=pytest.mark.slow),
    ],
)
def test_an_endless_wait_is_a_hang(backend: TorchBackend, world: World, how: str, others: str, ends: list[End]) -> None:
    run = wait(backend, world, how, others)
    assert (run.ends, run.observed) == (ends, "no rank moved for 1 s")
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished


@reusable
@pytest.mark.slow
def test_a_host_that_only_polls_gives_up(backend: TorchBackend, world: World) -> None:
    run = backend.run(replace(world, deadline_ns=300_000_000), "real_waits", {"how": "polls", "others": "ends"})
    assert run.ends == ["finished", "blocked"]
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished


@pytest.mark.slow
@reusable
def test_a_sleep_is_no_stall(backend: TorchBackend, world: World) -> None:
    run = wait(backend, world, "sleeps", "ends", stall_ns=500_000_000)
    assert run.finished, run.observed
    assert run.waited_ns[1] < 1_000_000_000 < run.elapsed_ns


@reusable
def test_a_kernel_error_raises_in_a_read_of_another_stream(backend: TorchBackend, world: World) -> None:
    run = wait(backend, world, "fails_on_a_stream_and_reads_another", "ends")
    assert run.ends == ["finished", "raised"]
    assert run.journals[1][-1][: SITE + 1] == ("raised", 3, MAIN, "KernelError")


def stored(how: str, value: object) -> RawRecord:
    return raw("store", f"store.{how}", node=0, port=5, how=how, key="", value=value)


def test_the_last_records_show_whether_a_rank_is_idle_or_blocked(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert unmoving_state(path) == Unmoving(False, 0)
    file = JournalFile(str(path))
    repeat = [raw("injected", "sum", what="repeat"), *(all_reduce("sum", "dp", k, ordinal=k) for k in (0, 1))]
    for record, expected in [
        *[(record, Unmoving(False, 0)) for record in repeat],
        (raw("take", "box", mailbox="box", how="idle"), Unmoving(False, 0)),
        (raw("learned", "sum", ordinal=1, outcome=5), Unmoving(True, 0)),
        (raw("sleep", "nap", ns=77), Unmoving(False, 77)),
        (raw("learned", "nap", outcome=None), Unmoving(True, 0)),
        (stored("get", 99), Unmoving(False, 99)),
        (raw("learned", "store.get", outcome=None), Unmoving(True, 0)),
        (stored("join", 98), Unmoving(False, 98)),
        (raw("learned", "store.join", outcome=5), Unmoving(True, 0)),
        (stored("set", 97), Unmoving(True, 0)),
        (stored("add", 96), Unmoving(False, 0)),
        (raw("learned", "store.add", outcome=96), Unmoving(True, 0)),
        (raw("receive_any", "any", communicator="dp", number=0, count=4, dtype="int32"), Unmoving(False, 0)),
        (raw("learned", "any", outcome=(1, 5)), Unmoving(True, 0)),
        (stored("open", None), Unmoving(False, 0)),
        (raw("learned", "store.open", outcome=None), Unmoving(True, 0)),
        (raw("learned", "box", outcome="message"), Unmoving(False, 0)),
        (raw("take", "box", ordinal=1, mailbox="box", how="get"), Unmoving(False, 0)),
    ]:
        file.write(record)
        assert unmoving_state(path) == expected, record
    file.close()
