"""Twins for the certificate: for each of its conditions a healthy run, and a faulty run that breaks only this
condition.

    twin = TWINS["reads after writes"]
    twin.made(wrong=False)      # certified
    twin.made(wrong=True)       # not certified; the check named by the twin finds its class
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dpsim.contract.ops import Ref
from tests.checks.handmade import Hand, Made
from tests.records import changed, raw

Write: TypeAlias = Callable[[Made, bool], None]


class Twin(NamedTuple):
    """A pair of runs. `klass`: the class that `check` finds in the faulty one."""

    write: Write
    check: str
    klass: str
    ranks: int

    def made(self, wrong: bool) -> Made:
        made = Made(self.ranks)
        self.write(made, wrong)
        for hand in made.hands:
            hand.journal.append(raw("finished", "end", step=hand.step))
        return made


TWINS: dict[str, Twin] = {}


def twin(check: str, klass: str, ranks: int = 1) -> Callable[[Write], Write]:
    def note(write: Write) -> Write:
        TWINS[write.__name__.replace("_", " ")] = Twin(write, check, klass, ranks)
        return write

    return note


race = twin("race", "RACE:BUFFER")
reuse = twin("race", "RACE:REUSED_IN_FLIGHT")


def written(a: Hand, stream: str = "main", count: int = 8) -> Ref:
    """Returns a buffer of the stream main, and a kernel on `stream` writes it."""
    x = a.alloc("main", count, (0, 0))
    a.launch("write", stream, writes=[x])
    return x


def lent(a: Hand, *streams: str) -> Ref:
    """Returns a buffer of the stream main that each of the streams reads after its write, without an order between
    them.
    """
    x = written(a)
    event = a.mark("main")
    for stream in streams:
        a.wait(stream, event)
        a.launch("use", stream, reads=[x])
    return x


def part(x: Ref, first: int, end: int) -> Ref:
    return x[0], first, end


# ---- one buffer


@race
def reads_after_writes(made: Made, wrong: bool) -> None:
    x = written(made[0])
    if not wrong:
        made[0].order("main", "side")
    made[0].launch("use", "side", reads=[x])


@race
def writes_after_writes(made: Made, wrong: bool) -> None:
    x = written(made[0])
    if not wrong:
        made[0].order("main", "side")
    made[0].launch("again", "side", writes=[x])


@race
def writes_after_reads(made: Made, wrong: bool) -> None:
    x = lent(made[0], "side")
    if not wrong:
        made[0].order("side", "main")
    made[0].launch("again", "main", writes=[x])


@race
def writes_after_all_reads(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side", "copy")
    a.order("copy", "main")
    if not wrong:
        a.order("side", "main")
    a.launch("again", "main", writes=[x])


@race
def writes_after_many_reads(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side", "copy", "extra")
    for stream in ("copy", "extra", *(() if wrong else ("side",))):
        a.order(stream, "main")
    a.launch("again", "main", writes=[x])


@race
def views_are_what_they_overlap(made: Made, wrong: bool) -> None:
    a = made[0]
    x = written(a)
    a.order("main", "side")
    a.launch("low", "main", writes=[part(x, 0, 4)])
    a.launch("high", "side", reads=[part(x, 3 if wrong else 4, 8)])


@race
def pieces_of_a_buffer_have_their_own_past(made: Made, wrong: bool) -> None:
    a = made[0]
    x = written(a)
    a.order("main", "side")
    for at in range(8):
        a.launch("piece", "main" if wrong or at else "side", writes=[part(x, at, at + 1)])
    if wrong:
        a.launch("low", "side", writes=[part(x, 0, 1)])


@race
def an_event_orders_the_work_before_it(made: Made, wrong: bool) -> None:
    a = made[0]
    x = a.alloc("main", 8)
    event = a.mark("main") if wrong else -1
    a.launch("write", "main", writes=[x])
    a.wait("side", event if wrong else a.mark("main"))
    a.launch("use", "side", reads=[x])


@race
def an_event_that_has_not_passed_orders_nothing(made: Made, wrong: bool) -> None:
    x = written(made[0])
    made[0].learned(made[0].ask("query", made[0].mark("main")), not wrong)
    made[0].launch("use", "side", reads=[x])


@race
def a_read_that_is_not_awaited_orders_nothing(made: Made, wrong: bool) -> None:
    a = made[0]
    x = written(a)
    work = a.begin_read("main", x)
    if not wrong:
        a.learned(work)
    a.launch("use", "side", reads=[x])
    if wrong:
        a.learned(work)


@race
def what_is_idle_has_no_place(made: Made, wrong: bool) -> None:
    a = made[0]
    x = written(a)
    a.collective("dp", "main", count=0 if wrong else 8)
    a.collective("dp", "side", reads=[x], writes=[x])


@twin("race", "RACE:BUFFER", 2)
def receives_of_a_group_use_disjoint_memory(made: Made, wrong: bool) -> None:
    a, b = made.hands
    x = a.alloc("main", 8)
    for half in (part(x, 0, 5 if wrong else 4), part(x, 4, 8)):
        a.transfer("recv", 1, "main", half, group=0)
        b.transfer("send", 0, "main", group=0)
    a.launch("use", "main", reads=[x])


@twin("race", "RACE:BUFFER", 2)
def a_group_does_not_send_memory_that_it_receives_into(made: Made, wrong: bool) -> None:
    a, b = made.hands
    x = written(a)
    a.transfer("send", 1, "main", part(x, 0, 4), group=0)
    a.transfer("recv", 1, "main", part(x, 3 if wrong else 4, 8), group=0)
    b.transfer("send", 0, "main", group=0)
    b.transfer("recv", 0, "main", group=0)


@twin("race", "RACE:BUFFER", 2)
def a_group_does_not_receive_into_memory_that_it_sends(made: Made, wrong: bool) -> None:
    a, b = made.hands
    x = written(a)
    a.transfer("recv", 1, "main", part(x, 0, 4), group=0)
    a.transfer("send", 1, "main", part(x, 3 if wrong else 4, 8), group=0)
    b.transfer("send", 0, "main", group=0)
    b.transfer("recv", 0, "main", group=0)


@twin("race", "RACE:BUFFER", 2)
def no_op_comes_within_a_group(made: Made, wrong: bool) -> None:
    a, b = made.hands
    x = written(a)
    for number in range(2):
        if number and wrong:
            a.launch("within", "main", writes=[x])
        a.transfer("send", 1, "main", x, group=0)
        b.transfer("recv", 0, "main", group=0)


@twin("stale", "STALE:UNWRITTEN")
def reads_follow_a_write(made: Made, wrong: bool) -> None:
    x = made[0].alloc("main", 8)
    made[0].launch("write", "main", writes=[part(x, 0, 4 if wrong else 8)])
    made[0].launch("use", "main", reads=[x])


@twin("stale", "STALE:VERSION")
def tags_are_equal(made: Made, wrong: bool) -> None:
    x = made[0].alloc("main", 8)
    made[0].launch("write", "main", writes=[(*x, 1)])
    made[0].launch("use", "main", reads=[(*x, 2 if wrong else 1)])


@twin("stale", "STALE:VERSION")
def a_write_without_a_tag_leaves_none(made: Made, wrong: bool) -> None:
    x = made[0].alloc("main", 8)
    made[0].launch("write", "main", writes=[(*x, 1)])
    made[0].launch("again", "main", writes=[part(x, 0, 4)] if wrong else [])
    made[0].launch("use", "main", reads=[(*x, 1)])


# ---- memory that a later buffer reuses


@reuse
def reads_before_the_free_are_over(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side")
    a.free("main", x)
    if not wrong:
        a.order("side", "main")
    written(a)


@reuse
def all_reads_before_the_free_are_over(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side", "copy")
    a.free("main", x)
    a.order("copy", "main")
    if not wrong:
        a.order("side", "main")
    written(a)


@reuse
def writes_before_the_free_are_over(made: Made, wrong: bool) -> None:
    a = made[0]
    x = written(a, "side")
    a.free("main", x)
    if not wrong:
        a.order("side", "main")
    written(a)


@reuse
def record_stream_names_the_stream(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side")
    a.used("main" if wrong else "side", x)
    a.free("main", x)
    written(a)


@reuse
def record_stream_names_no_other_stream(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side")
    a.used("copy" if wrong else "side", x)
    a.free("main", x)
    written(a)


@reuse
def every_freed_block_counts(made: Made, wrong: bool) -> None:
    """A freed buffer counts even after another buffer got its memory and was freed too."""
    a = made[0]
    x, y = lent(a, "side"), written(a)
    if not wrong:
        a.used("side", x)
    a.free("main", x)
    a.free("main", y)
    written(a)


@reuse
def a_block_counts_for_every_later_one(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side")
    a.free("main", x)
    a.alloc("main", 8, (0, 0))
    if not wrong:
        a.order("side", "main")
    written(a)


@reuse
def every_stream_that_writes_is_behind(made: Made, wrong: bool) -> None:
    a = made[0]
    x = lent(a, "side")
    a.free("main", x)
    y = a.alloc("main", 8, (0, 0))
    a.order("side", "main")
    a.launch("low", "main", writes=[part(y, 0, 4)])
    if not wrong:
        a.order("side", "copy")
    a.order("elsewhere", "copy")
    a.launch("high", "copy", writes=[part(y, 4, 8)])


# ---- calls


@twin("ledger", "MISMATCH:COLLECTIVE:DTYPE", 2)
def calls_are_alike(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        hand.learned(hand.collective("cpu", None, dtype="int64" if wrong and hand.rank else "int32"))


def call(hand: Hand, site: str, **fields: Any) -> None:
    """Makes a device collective at a site."""
    hand.collective("dp", "main", **fields)
    hand.journal[-1] = changed(hand.journal[-1], site=site)


@twin("ledger", "MISMATCH:COLLECTIVE:DTYPE", 2)
def calls_of_two_names_are_alike(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        call(hand, "take" if hand.rank else "give", dtype="int64" if wrong and hand.rank else "int32")


@twin("ledger", "MISMATCH:COLLECTIVE:STEP", 2)
def calls_of_two_names_are_of_one_step(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        for step in range(2):
            hand.step = 1 if wrong and hand.rank else step
            call(hand, "take" if hand.rank else "give")


@twin("ledger", "MISMATCH:COLLECTIVE:STEP", 2)
def calls_are_of_one_step(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        for step in range(2):
            hand.step = 1 if wrong and hand.rank else step
            hand.learned(hand.collective("cpu", None))


@twin("ledger", "MISMATCH:COLLECTIVE:SITES", 2)
def calls_are_at_one_site(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        for site in ("one", "two") if not wrong or hand.rank else ("two", "one"):
            call(hand, site)


@twin("ledger", "MISMATCH:COLLECTIVE:STEP", 2)
def all_members_make_the_call(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        if not (wrong and hand.rank):
            hand.learned(hand.collective("cpu", None))


@twin("ledger", "MISMATCH:GROUP:RANKS", 2)
def members_make_one_group(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        ranks = (1, 0) if wrong and hand.rank else (0, 1)
        name = f"x[{ranks[0]},{ranks[1]}]"
        hand.add("group", "x.group.members", communicator=name, group="x", device=False, ranks=ranks)
        hand.learned(hand.collective(name, None))


@twin("ledger", "MISMATCH:TRANSFER:COUNT", 2)
def transfers_are_of_one_size(made: Made, wrong: bool) -> None:
    made[0].transfer("send", 1, "main", count=4 if wrong else 8)
    made[1].transfer("recv", 0, "main")


@twin("ledger", "MISMATCH:TRANSFER:DTYPE", 2)
def transfers_are_of_one_type(made: Made, wrong: bool) -> None:
    made[0].transfer("send", 1, "main", dtype="float32" if wrong else "int32")
    made[1].transfer("recv", 0, "main")


@twin("agreement", "DISAGREEMENT:PLAN", 2)
def decisions_are_equal(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        hand.add("decision", "plan", communicator="cpu", value=hand.rank if wrong else 7)


@twin("agreement", "DISAGREEMENT:PLAN", 2)
def all_members_make_the_decision(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        for step in range(3):
            hand.step = step
            if not (wrong and hand.rank and step == 1):
                hand.add("decision", "plan", communicator="cpu", value=7)


@twin("agreement", "DISAGREEMENT:PLAN", 2)
def a_label_is_spelt_alike(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        hand.add("decision", "plna" if wrong and hand.rank else "plan", communicator="cpu", value=7)


@twin("agreement", "DISAGREEMENT:PLAN", 2)
def decisions_are_of_one_step(made: Made, wrong: bool) -> None:
    for hand in made.hands:
        for number in range(2):
            hand.step = 1 if wrong and hand.rank else number
            hand.add("decision", "plan", communicator="cpu", value=number)


@twin("leftover", "LEFTOVER:NEVER_AWAITED")
def reads_are_awaited(made: Made, wrong: bool) -> None:
    work = made[0].begin_read("main", written(made[0]))
    if not wrong:
        made[0].learned(work)


@twin("leftover", "LEFTOVER:NEVER_AWAITED")
def host_collectives_are_awaited(made: Made, wrong: bool) -> None:
    work = made[0].collective("cpu", None)
    if not wrong:
        made[0].learned(work)


@twin("leftover", "LEFTOVER:NEVER_AWAITED", 2)
def host_transfers_are_awaited(made: Made, wrong: bool) -> None:
    work = made[0].transfer("send", 1, None, communicator="cpu")
    if not wrong:
        made[0].learned(work)
    made[1].learned(made[1].transfer("recv", 0, None, communicator="cpu"))


@twin("leftover", "LEFTOVER:SEND", 2)
def sends_are_received(made: Made, wrong: bool) -> None:
    for _ in range(2):
        made[0].transfer("send", 1, "main")
    for _ in range(1 if wrong else 2):
        made[1].transfer("recv", 0, "main")


@twin("leftover", "LEFTOVER:SEND", 2)
def lines_have_two_ends(made: Made, wrong: bool) -> None:
    made[0].transfer("send", 1, "main")
    if not wrong:
        made[1].transfer("recv", 0, "main")


@twin("leftover", "LEFTOVER:RECV", 2)
def receives_have_a_send(made: Made, wrong: bool) -> None:
    if not wrong:
        made[0].transfer("send", 1, "main")
    made[1].transfer("recv", 0, "main")
