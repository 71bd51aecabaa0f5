"""Journals made by hand: what a backend would have written, without one.

made = Made(2)
a = made[0]
x = a.alloc("main", 8)
a.launch("write", "main", writes=[x])
made.classes()          # the classes of what all checks find
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.checks.finding import Finding
from dpsim.checks.judge import judge
from dpsim.ops import RawRecord, Ref
from dpsim.world import CommunicatorSpec, Run, World


class Hand:
    """One rank's journal. Buffers are refs (number, first, end); all elements are int32."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.step = 0
        self.journal: list[RawRecord] = []
        self._next: dict[Any, int] = {}

    def number(self, what: Any) -> int:
        self._next[what] = self._next.get(what, -1) + 1
        return self._next[what]

    def note(self, kind: str, site: str, *fields: Any) -> tuple[str, int]:
        ordinal = self.number(("site", site))
        self.journal.append((kind, self.step, site, ordinal, f"here.py:{len(self.journal)}", *fields))
        return site, ordinal

    def learned(self, work: tuple[str, int], outcome: Any = 0) -> None:
        self.journal.append(("learned", self.step, *work, "", outcome))

    def alloc(self, stream: str, count: int, place: tuple[int, int] | None = None, site: str = "buffer") -> Ref:
        """`place`: segment and first byte."""
        number = self.number("buffer")
        where = None if place is None else (place[0], place[1], place[1] + 4 * count)
        self.note("alloc", site, stream, number, count, "int32", where)
        return number, 0, count

    def free(self, stream: str, buffer: Ref) -> None:
        self.journal.append(("free", self.step, "buffer", 0, "here.py:free", stream, buffer[0]))

    def used(self, stream: str, buffer: Ref) -> None:
        self.note("used", "record_stream", stream, buffer[0])

    def launch(self, site: str, stream: str, reads: Sequence[Ref] = (), writes: Sequence[Ref] = ()) -> None:
        self.note("launch", site, stream, tuple(reads), tuple(writes))

    def mark(self, stream: str) -> int:
        event = self.number("event")
        self.note("mark", "record", stream, event)
        return event

    def wait(self, stream: str, event: int) -> None:
        self.note("wait", "wait", stream, event)

    def order(self, before: str, after: str) -> None:
        self.wait(after, self.mark(before))

    def ask(self, how: str, event: int) -> tuple[str, int]:
        return self.note("ask", how, how, event)

    def read(self, stream: str, buffer: Ref) -> None:
        self.learned(self.note("read", "read", stream, buffer[2] - buffer[1], "int32", (buffer,)))

    def collective(
        self,
        communicator: str,
        stream: str | None,
        reads: Sequence[Ref] = (),
        writes: Sequence[Ref] = (),
        op: str = "all_reduce",
        count: int = 8,
        **more: Any,
    ) -> tuple[str, int]:
        seq = self.number(("seq", communicator))
        reduce, sizes, root = more.get("reduce"), more.get("sizes", ()), more.get("root")
        form = communicator, seq, op, count, "int32", root, reduce, sizes
        return self.note("collective", f"{communicator}.{op}", stream, *form, tuple(reads), tuple(writes))

    def transfer(
        self,
        op: str,
        peer: int,
        stream: str | None,
        buffer: Ref | None = None,
        group: int | None = None,
        count: int = 8,
        dtype: str = "int32",
    ) -> tuple[str, int]:
        seq = self.number(("line", op, peer))
        refs = () if buffer is None else (buffer,)
        sides = (refs, ()) if op == "send" else ((), refs)
        return self.note("transfer", op, stream, "pp", seq, op, count, dtype, peer, group, *sides)

    def post(self, to: int, message: Any, box: str = "box") -> None:
        self.note("post", "post", to, box, message)

    def take(self, how: str = "get", box: str = "box") -> tuple[str, int]:
        return self.note("take", how, box, how)


class Made:
    """A run of some ranks. Communicators: pp, dp and ep on the device, cpu on the host; all ranks are in all."""

    def __init__(self, ranks: int) -> None:
        self.hands = [Hand(rank) for rank in range(ranks)]
        everyone = tuple(range(ranks))
        specs = [CommunicatorSpec(name, name, "device", everyone) for name in ("dp", "ep", "pp")]
        self.world = World(ranks, (*specs, CommunicatorSpec("cpu", "cpu", "host", everyone)))

    def __getitem__(self, rank: int) -> Hand:
        return self.hands[rank]

    def run(self, *ends: Any) -> Run:
        size = len(self.hands)
        return Run("hand", [hand.journal for hand in self.hands], list(ends) or ["finished"] * size, [0] * size, 0)

    def findings(self, *ends: Any) -> list[Finding]:
        return judge(self.world, self.run(*ends))

    def classes(self, *ends: Any) -> list[str]:
        return [finding.klass for finding in self.findings(*ends)]
