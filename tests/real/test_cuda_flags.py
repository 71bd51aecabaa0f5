"""Tests of flags on the streams of a GPU: the word for which a stream waits, and what the host writes there."""

from __future__ import annotations

import pytest

from dpsim.contract.interface import CaptureError
from dpsim.contract.ops import KIND, RawRecord
from real.cuda_flags import DriverError
from real.threads import drive
from tests.real.null_device import NullCalls, null_rank


def words(calls: NullCalls) -> list[int]:
    return [int(word) for word in calls.words.memory]


def test_each_flag_has_a_word_from_its_first_wait_on() -> None:
    calls = NullCalls()
    rank = null_rank(calls)
    main, side, one, other = rank.stream("main"), rank.stream("side"), rank.flag("one"), rank.flag("other")
    other.set("set")
    assert words(calls) == [0, 0]
    main.wait_flag(one, "hold")
    side.wait_flag(one, "hold")
    side.wait_flag(other, "hold")
    assert calls.told == ["1 waits for the word at 0", "2 waits for the word at 0", "2 waits for the word at 4"]
    assert words(calls) == [0, 1]
    one.set("set")
    other.clear("clear")
    assert words(calls) == [1, 0]
    with pytest.raises(RuntimeError, match="more than 2 flags"):
        main.wait_flag(rank.flag("third"), "hold")


def test_words_are_released_clear_and_wake_waiters() -> None:
    calls = NullCalls()
    first = calls.words.take()
    first.set()
    calls.words.give_back()
    assert words(calls) == [1, 0]
    assert calls.words.take().address == first.address
    assert words(calls) == [0, 0]
    calls.words.let_go()
    assert words(calls) == [1, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_keeps_the_wait_on_the_device(fails: bool) -> None:
    """Checks a wait for a flag in a capture. If the device refuses the wait, the error has the device's code."""
    calls, records = NullCalls(), list[RawRecord]()
    rank = null_rank(calls, records.append)
    main, graph, flag = rank.stream("main"), rank.graph("g"), rank.flag("f")

    def refuses(stream: int, address: int) -> None:
        raise DriverError("cuStreamWaitValue32", 900)

    if fails:
        calls.wait_for_word = refuses

    async def program() -> None:
        async with graph.capture(main):
            main.wait_flag(flag, "hold")
        graph.replay(main, "go")
        graph.replay(main, "go")

    if fails:
        with pytest.raises(CaptureError) as raised:
            drive(program())
        assert raised.value.code == 900
        return
    drive(program())
    assert [told for told in calls.told if "word" in told] == ["1 waits for the word at 0"]
    assert [record[KIND] for record in records].count("flag_wait") == 2
