"""Tests that each call of a rank is one step for the other threads of the rank, on devices that need no worker
process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("torch")

from dpsim.backend.journal.journal import Journal, RankJournal
from dpsim.contract.interface import Rank
from dpsim.contract.ops import KIND, MAIN, SITE, THREAD, WHERE, RawRecord
from real import cuda_calls, issuing, threads
from real.belongings import Belongings
from real.cpu import CpuDevice
from real.cpu_streams import CpuStream
from real.cuda_fused import FusedStream
from real.flags import RealFlag
from real.issuing import ISSUING, OwnJournal, guarded
from real.rank import RealRank
from real.threads import Over, OwnPatience, drive
from real.waiting import Patience, Unfinished
from tests.real.null_device import NullCalls, null_rank
from tests.real.thread_programs import TURNS, Batons, mix, put
from tests.real.worlds import make_world
from tests.records import raw


def fill(*buffers: Any) -> None:
    """A kernel that does nothing."""


def is_held() -> bool:
    """Returns whether another thread would have to wait for the lock that the current thread holds."""
    got: list[bool] = []

    def attempt() -> None:
        got.append(ISSUING.acquire(blocking=False))
        if got[0]:
            ISSUING.release()

    one = threading.Thread(target=attempt)
    one.start()
    one.join()
    return not got[0]


async def every_call(rank: Rank) -> None:
    """Makes each call that has an effect at once."""
    main, side, group, host = rank.stream("main"), rank.stream("side"), rank.device("dp"), rank.host("dp_cpu")
    buffer, other = main.alloc((4, 2), "int32", "buffer"), main.alloc(8, "int32", "other")
    main.launch("fill", fill, writes=[buffer.view(1, 2), buffer.tagged("t")])
    event = main.record()
    main.record(event)
    side.wait(event)
    side.wait_stream(main)
    await event.query("query")
    await event.synchronize("synchronize")
    group.all_reduce(buffer, main, site="sum")
    group.broadcast(buffer, 0, main, site="tell")
    other.record_stream(main)
    await buffer.read("read")
    await host.all_reduce(np.ones(1, np.int32), site="host")
    async with rank.graph("g").capture(main):
        inside = main.alloc(4, "int32", "inside")
        main.launch("fill", fill, writes=[inside])
        main.record(event)
        side.wait(event)
        main.wait_stream(side)
        group.all_reduce(inside, main, site="sum")
        inside.free()
    rank.graph("g").replay(main, "replay")
    rank.graph("g").replay(side, "replay")
    flag = rank.flag("f")
    flag.set("set")
    await flag.wait("wait")
    await flag.query("query.flag")
    flag.clear("clear")
    await rank.sleep(1, "sleep")
    rank.decide("label", 1, "dp")
    rank.probe("probe")
    other.free()
    buffer.free()


SAID_LATER = "learned", "ended", "raised", "finished"


@pytest.fixture
def not_held() -> list[RawRecord]:
    """Returns a list of records that a thread wrote while another thread could have made a call."""
    return []


def lone(sink: Callable[[RawRecord], None], threaded: bool = True) -> RealRank:
    return null_rank(NullCalls(), sink, threaded=threaded)


def test_every_call_is_one_step(not_held: list[RawRecord]) -> None:
    records: list[RawRecord] = []

    def look(record: RawRecord) -> None:
        records.append(record)
        if record[KIND] not in SAID_LATER and not is_held():
            not_held.append(record)

    drive(every_call(lone(look)))
    assert not not_held
    assert len(records) > 40
    ISSUING.acquire(blocking=False)
    assert is_held()
    ISSUING.release()
    assert not is_held()


def test_a_call_that_is_not_is_seen(not_held: list[RawRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin: without `guarded`, threads write such records."""
    monkeypatch.setattr(threads, "guarded", lambda thing: thing)

    def look(record: RawRecord) -> None:
        if record[KIND] not in SAID_LATER and not is_held():
            not_held.append(record)

    drive(every_call(lone(look)))
    assert {record[KIND] for record in not_held} >= {"alloc", "launch", "collective", "flag", "replay"}


def test_records_are_those_of_a_rank_without_threads() -> None:
    """Checks that records of a threaded rank have the same lines of code as those of a rank without threads."""
    journals: list[list[RawRecord]] = []
    for threaded in (False, True):
        journals.append([])
        drive(every_call(lone(journals[-1].append, threaded)))
    plain, own = ([record[: WHERE + 1] for record in journal] for journal in journals)
    assert own == plain
    places = {record[WHERE].partition(":")[0] for record in own if record[KIND] != "learned"}
    assert places == {"tests/real/test_issuing.py"}


def test_a_rank_without_threads_pays_nothing() -> None:
    rank, other = lone(lambda record: None, threaded=False), lone(lambda record: None)
    assert type(rank) is RealRank
    assert type(rank.journal) is Journal
    assert type(rank.stream("main")) is FusedStream
    assert type(rank.patience) is Patience
    assert not isinstance(other.stream("main"), FusedStream)
    assert type(other.stream("main")).__name__ == "CudaStream"
    with pytest.raises(RuntimeError, match="threaded = True"):
        rank.start("u1", every_call)


def test_objects_that_a_guarded_rank_returns_are_guarded() -> None:
    rank = lone(lambda record: None)
    main = rank.stream("main")
    given = [main, main.alloc(4, "int32", "x"), main.record(), rank.device("dp"), rank.host("dp_cpu"), rank.graph("g")]
    given += [rank.mailbox("m"), rank.flag("f"), given[1].view(0, 2), given[1].tagged("t")]  # type: ignore[attr-defined]
    assert all(guarded(one) is one and type(one) is type(guarded(one)) for one in given)
    for one in given:
        kind = type(one)
        assert type(kind.__mro__[1]) is type(kind)
        assert kind.__name__ == kind.__mro__[1].__name__, "errors name the class as before"
    assert guarded(7) == 7
    assert rank.stream("main") is main


def test_the_journal_of_calls_that_are_not_one_step_has_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty twin of `test_the_journal_has_the_order_of_issue`, which runs on workers. A thread pauses between its
    record and its call on the stream, and another thread's call comes first.
    """
    records: list[RawRecord] = []
    inside, done = threading.Event(), threading.Event()
    launch = CpuStream._launch

    def held_up(stream: CpuStream, call: Any) -> None:
        if call.args == (0,):
            inside.set()
            assert done.wait(60)
        launch(stream, call)

    async def second(rank: Rank) -> None:
        assert inside.wait(60)
        rank.stream("main").launch("work", mix, writes=held, args=(1,))
        done.set()

    held: list[Any] = []

    async def first(rank: Rank) -> None:
        main = rank.stream("main")
        held.append(main.alloc(1, "int64", "x"))
        main.launch("put", put, writes=held, args=(7,))
        thread = rank.start("u1", second)
        main.launch("work", mix, writes=held, args=(0,))
        await thread.join("join")
        order = [int(record[THREAD] != MAIN) for record in records if record[SITE] == "work"]
        assert order == [0, 1]
        assert int((await held[0].read("out"))[0]) == 5 * (5 * 7 + 1) + 0 != 5 * (5 * 7 + 0) + 1

    monkeypatch.setattr(threads, "guarded", lambda thing: thing)
    monkeypatch.setattr(CpuStream, "_launch", held_up)
    of = Belongings(CpuDevice(), [], cast(Any, None), threading.Event(), threading.Event(), polls=True)
    rank = threads.threaded_rank(0, make_world(1), records.append, of)
    drive(first(rank))
    assert rank.stop(60.0)
    rank.close()


@pytest.mark.parametrize("how", ["eager", "captured"])
def test_two_threads_on_one_stream_of_a_gpu(how: str) -> None:
    """Checks the calls that the device receives from two threads in turn. In a capture of the main thread, both put
    their work into the graph.
    """
    records: list[RawRecord] = []
    calls = NullCalls()
    rank = null_rank(calls, records.append, threaded=True)
    drive(Batons().run(rank, {"how": how, "meets": False}))
    order = [record[THREAD] for record in records if record[SITE] == "work" and record[THREAD] != MAIN]
    assert order == ["even", "odd"] * TURNS
    sums = [one for one in calls.told if one.startswith("allreduce")]
    assert sums == ["allreduce on 1"] * (2 * TURNS)
    begun = [at for at, one in enumerate(calls.told) if one.startswith("graph begins")]
    ended = [at for at, one in enumerate(calls.told) if one.startswith("graph ends")]
    if how == "captured":
        assert all(begun[0] < at < ended[0] for at, one in enumerate(calls.told) if one in sums)
    assert rank.stop(10.0)
    with pytest.raises(Unfinished):
        awaited(rank.flag("never").wait("after"))


def test_a_wait_for_a_gpu_is_within_the_block_for_it() -> None:
    """Checks that a wait for the GPU runs in the block `Relaxed`, in which CUDA allows queries during another thread's
    capture. The thread also leaves the block after an error.
    """
    modes = [0]

    def exchange(mode: Any) -> int:
        modes.append(mode._obj.value)
        mode._obj.value = modes[-2]
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_calls, "driver", lambda: SimpleNamespace(cuThreadExchangeStreamCaptureMode=exchange))
        give_up = threading.Event()
        patience = OwnPatience(Over(give_up), threading.Event(), False, cuda_calls.Relaxed)
        seen: list[int] = []

        def ready() -> bool:
            seen.append(modes[-1])
            return len(seen) == 3

        patience.until(ready)
        assert (seen, modes) == ([cuda_calls.RELAXED] * 3, [0, cuda_calls.RELAXED, 0])
        assert patience.ask(lambda: modes[-1] == cuda_calls.RELAXED)
        assert modes[-1] == 0
        give_up.set()
        for wait in (patience.until, patience.ask):
            with pytest.raises(Unfinished):
                wait(lambda: False)
        assert modes[-2:] == [cuda_calls.RELAXED, 0]


def test_each_thread_has_its_own_journal() -> None:
    records: list[RawRecord] = []
    shared = RankJournal(0, make_world(), records.append)
    front = OwnJournal(shared)
    front.step = 3

    def beside() -> None:
        front.enter(shared.thread("u1"))
        front.step = 8
        front.again("probe", "p", "", ())
        front.leave(shared.thread("u1"))

    for _ in range(2):  # a repeated name continues the numbering
        one = threading.Thread(target=beside)
        one.start()
        one.join()
    front.again("probe", "p", "", ())
    assert [record[:5] for record in records] == [
        ("probe", 8, "u1", "p", 0),
        ("probe", 8, "u1", "p", 1),
        ("probe", 3, MAIN, "p", 0),
    ]


# ---- flags


@pytest.fixture
def patience() -> Patience:
    return Patience(threading.Event(), polls=True)


def awaited(work: Any) -> Any:
    with pytest.raises(StopIteration) as ended:
        next(work.__await__())
    return ended.value.value


def flag_of(patience: Patience, kind: type[RealFlag] = RealFlag) -> RealFlag:
    journal = RankJournal(0, make_world(), lambda record: None).thread()
    return kind(journal, "f", patience)


class OneEvent(RealFlag):
    """The faulty twin: a wait reads the flag only when the host polls it."""

    def _wait(self, late_ns: int) -> Any:
        def outcome() -> Any:
            self._patience.until(lambda: self._set_now)
            return
            yield

        return outcome


def test_a_waiting_thread_continues_when_the_flag_is_set(patience: Patience) -> None:
    """Checks that a wait returns if the flag was set after the call, even if it was cleared before the thread polls."""
    for kind in (RealFlag, OneEvent):
        flag = flag_of(patience, kind)
        wait = flag.wait("wait")
        flag.set("set")
        flag.clear("clear")
        if kind is RealFlag:
            assert awaited(wait) is None
        patience.give_up.set()
        with pytest.raises(Unfinished):
            awaited(flag.wait("again") if kind is RealFlag else wait)
        patience.give_up.clear()
        with suppress(Unfinished):
            assert awaited(flag.query("query")) is False


def test_the_rank_is_over_when_the_run_is() -> None:
    give_up = threading.Event()
    over = Over(give_up)
    assert not over.wait(0)
    give_up.set()
    assert over.wait()
    assert over.is_set()
    give_up.clear()
    assert not over.is_set()
    over.set()
    assert over.wait()


def test_only_the_main_thread_may_write_records_after_the_end() -> None:
    records: list[RawRecord] = []
    over = Over(threading.Event())
    write = issuing.one_by_one(records.append, over)
    record = cast(RawRecord, ("probe", 0, "u1", "p", 0, ""))
    refused: list[str] = []

    def beside() -> None:
        try:
            write(record)
        except Unfinished:
            refused.append("u1")

    for _ in range(2):
        one = threading.Thread(target=beside)
        one.start()
        one.join()
        over.set()
    write(("probe", 0, MAIN, "p", 0, ""))
    assert [one[THREAD] for one in records] == ["u1", MAIN]
    assert refused == ["u1"]
    write(raw("injected", "p", what="delay", ns=1, change=(), communicator=None, seq=None))
    write(raw("injected", "p", what="die", ns=0, change=(), communicator=None, seq=None))
    with pytest.raises(Unfinished):
        write(("probe", 0, MAIN, "p", 0, ""))
