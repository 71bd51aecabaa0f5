"""Draws random instructions of one rank that involve no other rank: kernels, reads, events, allocs and frees.

Mostly a buffer's next use is ordered after its earlier uses: the stream or the host waits for the stream of the last
use. If neither waits, the script has a race, which is intended in some scripts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.interpreter.language import STREAMS, Instruction, View


@dataclass
class Buffer:
    size: int
    pool: str
    last: str  # the stream that used it last
    freed: bool = False


@dataclass
class Steps:
    """The instructions of one rank. `said`: those drawn so far."""

    rng: random.Random
    rank: int
    said: list[Instruction] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    names: int = 0

    def name(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def stream(self) -> str:
        return STREAMS[0] if self.rng.random() < 0.5 else self.rng.choice(STREAMS)

    def fresh(self, size: int, stream: str, written: bool = True) -> View:
        name = self.name("b")
        self.said.append(("alloc", name, stream, size))
        self.buffers[name] = Buffer(size, stream, stream)
        if written and size and self.rng.random() < 0.96:
            self.said.append(("fill", stream, (name, 0, size)))
        return name, 0, size

    def view(self, size: int, stream: str, written: bool = True) -> View:
        """Returns a view of `size` elements to use on a stream, mostly ordered after the buffer's earlier uses."""
        known = [name for name, buffer in self.buffers.items() if buffer.size >= size and not buffer.freed]
        if not known or not size or self.rng.random() < 0.3:
            return self.fresh(size, stream, written)
        name = self.rng.choice(known)
        self.order(name, stream)
        first = self.rng.randint(0, self.buffers[name].size - size)
        return name, first, first + size

    def order(self, name: str, stream: str) -> None:
        """Adds a wait of the stream for the one that used the buffer last, or with some probability none."""
        buffer = self.buffers[name]
        if buffer.last == stream:
            return
        chance = self.rng.random()
        if chance < 0.6:
            self.said.append(("join", stream, buffer.last))
        elif chance < 0.9:
            event = self.name("e")
            self.said.append(("record", event, buffer.last))
            self.said.append(("wait", stream, event) if chance < 0.8 else ("sync", event))
            self.events.append(event)
        buffer.last = stream

    # ---- actions of one rank

    def kernel(self) -> None:
        stream = self.stream()
        what = self.rng.choice(("fill", "mix", "copy"))
        target = self.view(1, stream)
        if what == "fill":
            self.maybe(("fill", stream, target))
        else:
            self.maybe((what, stream, self.view(1, stream), target))

    def read(self) -> None:
        view = self.view(1, self.stream())
        buffer = self.buffers[view[0]]
        if buffer.last == buffer.pool and self.rng.random() < 0.6:
            self.said.append(("read", view, None))
        else:
            self.said.append(("read", view, buffer.last if self.rng.random() < 0.9 else self.stream()))

    def record(self) -> None:
        self.events.append(self.name("e"))
        self.said.append(("record", self.events[-1], self.stream()))

    def ask(self) -> None:
        if not self.events:
            self.record()
        self.said.append((self.rng.choice(("query", "query", "query", "sync")), self.rng.choice(self.events)))

    def wait(self) -> None:
        if self.events:
            self.maybe(("wait", self.stream(), self.rng.choice(self.events)))
        else:
            self.said.append(("join", *self.rng.sample(STREAMS, 2)))

    def reuse(self) -> None:
        """Uses a buffer, perhaps on another stream, and frees it, and perhaps allocates another one."""
        known = [name for name, buffer in self.buffers.items() if not buffer.freed]
        name = self.rng.choice(known) if known else self.fresh(self.rng.randint(1, 2), self.stream())[0]
        buffer = self.buffers[name]
        if self.rng.random() < 0.6:
            stream = self.rng.choice(STREAMS)
            self.order(name, stream)
            self.said.append(("fill", stream, (name, 0, buffer.size)))
        if buffer.last != buffer.pool:
            chance = self.rng.random()
            if chance < 0.4:
                self.said.append(("mark", name, buffer.last))
            elif chance < 0.7:
                self.order(name, buffer.pool)
        buffer.freed = True
        self.said.append(("free", name))
        if self.rng.random() < 0.8:
            self.fresh(self.rng.randint(1, 2), buffer.pool if self.rng.random() < 0.8 else self.stream())

    def maybe(self, instruction: Instruction) -> None:
        self.said.append(("odd", instruction) if self.rng.random() < 0.15 else instruction)
