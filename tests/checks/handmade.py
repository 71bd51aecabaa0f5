"""Handmade journals: records as a backend would write them, for tests of the checks without a backend.

made = Made(2)
a = made[0]
x = a.alloc("main", 8)
a.launch("write", "main", writes=[x])
made.classes()          # the classes of the findings of all checks
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.contract.ops import MAIN, RawRecord, Ref
from dpsim.contract.world import Run
from dpsim.diagnose.words.told import Told
from tests.judged import judge
from tests.programs import world_of
from tests.records import raw


class Hand:
    """The journal of one rank. A buffer is a reference (number, first element, end); all elements are int32."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.step = 0
        self.thread = MAIN
        self.journal: list[RawRecord] = []
        self._next: dict[Any, int] = {}

    def number(self, what: Any) -> int:
        self._next[what] = self._next.get(what, -1) + 1
        return self._next[what]

    def add(self, kind: str, site: str, **fields: Any) -> None:
        """Adds a record in the current step and thread."""
        self.journal.append(raw(kind, site, **{"step": self.step, "thread": self.thread} | fields))

    def note(self, kind: str, site: str, **fields: Any) -> tuple[str, int]:
        """Adds the record of an op. Returns its address (site, ordinal), which `learned` of the same thread needs."""
        ordinal = self.number(("site", site))
        self.add(kind, site, ordinal=ordinal, where=f"here.py:{len(self.journal)}", **fields)
        return site, ordinal

    def learned(self, work: tuple[str, int], outcome: Any = 0) -> None:
        site, ordinal = work
        self.add("learned", site, ordinal=ordinal, outcome=outcome)

    def alloc(self, stream: str, count: int, place: tuple[int, int] | None = None, site: str = "buffer") -> Ref:
        """Allocates a buffer. `place`: its memory segment and first byte."""
        number = self.number("buffer")
        lies = None if place is None else (place[0], place[1], place[1] + 4 * count)
        self.note("alloc", site, stream=stream, buffer=number, count=count, dtype="int32", place=lies)
        return number, 0, count

    def free(self, stream: str, buffer: Ref) -> None:
        self.add("free", "buffer", where="here.py:free", stream=stream, buffer=buffer[0])

    def used(self, stream: str, buffer: Ref) -> None:
        self.note("used", "record_stream", stream=stream, buffer=buffer[0])

    def launch(self, site: str, stream: str, reads: Sequence[Ref] = (), writes: Sequence[Ref] = ()) -> None:
        self.note("launch", site, stream=stream, reads=tuple(reads), writes=tuple(writes))

    def mark(self, stream: str) -> int:
        event = self.number("event")
        self.note("mark", "record", stream=stream, event=event)
        return event

    def wait(self, stream: str, event: int) -> None:
        self.note("wait", "wait", stream=stream, event=event)

    def order(self, before: str, after: str) -> None:
        self.wait(after, self.mark(before))

    def ask(self, how: str, event: int) -> tuple[str, int]:
        return self.note("ask", how, how=how, event=event)

    def begin_read(self, stream: str, *reads: Ref) -> tuple[str, int]:
        """Adds a read that has not returned."""
        count = sum(ref[2] - ref[1] for ref in reads)
        return self.note("read", "read", stream=stream, count=count, dtype="int32", reads=reads)

    def read(self, stream: str, *reads: Ref) -> None:
        self.learned(self.begin_read(stream, *reads))

    def collective(
        self,
        communicator: str,
        stream: str | None,
        reads: Sequence[Ref] = (),
        writes: Sequence[Ref] = (),
        op: str = "all_reduce",
        count: int = 8,
        site: str | None = None,
        **more: Any,
    ) -> tuple[str, int]:
        seq = self.number(("seq", communicator))
        form: dict[str, Any] = {"dtype": "int32", "root": None, "reduce": None, "sizes": ()} | more
        form |= {"stream": stream, "communicator": communicator, "seq": seq, "op": op, "count": count}
        return self.note("collective", site or f"{communicator}.{op}", **form, reads=tuple(reads), writes=tuple(writes))

    def transfer(
        self,
        op: str,
        peer: int,
        stream: str | None,
        buffer: Ref | None = None,
        group: int | None = None,
        count: int = 8,
        dtype: str = "int32",
        communicator: str = "pp",
        site: str | None = None,
    ) -> tuple[str, int]:
        seq = self.number(("line", communicator, op, peer))
        refs = () if buffer is None else (buffer,)
        reads, writes = (refs, ()) if op == "send" else ((), refs)
        form: dict[str, Any] = {"stream": stream, "communicator": communicator, "seq": seq, "op": op, "peer": peer}
        form |= {"count": count, "dtype": dtype, "group": group}
        return self.note("transfer", site or op, **form, reads=reads, writes=writes)

    def post(self, to: int, message: Any, box: str = "box") -> None:
        self.note("post", "post", to=to, mailbox=box, content=message)

    def take(self, how: str = "get", box: str = "box") -> tuple[str, int]:
        return self.note("take", how, mailbox=box, how=how)

    def flag(self, how: str, name: str) -> tuple[str, int]:
        return self.note("flag", f"{name}.{how}", flag=name, how=how)

    def about_thread(self, how: str, name: str) -> tuple[str, int]:
        """Adds a record about thread `name`. `how`: "start" or "join"."""
        return self.note("thread", f"{name}.{how}", name=name, how=how)

    def ended(self, message: str = "") -> None:
        """Ends the current thread."""
        self.note("ended", "end", message=message)


class Made:
    """A run of some ranks. All ranks are in all communicators: pp, dp and ep on the device, and cpu on the host."""

    def __init__(self, ranks: int) -> None:
        self.hands = [Hand(rank) for rank in range(ranks)]
        self.world = world_of(ranks, ["cpu"], ["dp", "ep", "pp"])

    def __getitem__(self, rank: int) -> Hand:
        return self.hands[rank]

    def run(self, *ends: Any) -> Run:
        size = len(self.hands)
        return Run("hand", [hand.journal for hand in self.hands], list(ends) or ["finished"] * size, [0] * size, 0)

    def findings(self, *ends: Any) -> list[Told]:
        return judge(self.world, self.run(*ends))

    def classes(self, *ends: Any) -> list[str]:
        return [finding.klass for finding in self.findings(*ends)]
