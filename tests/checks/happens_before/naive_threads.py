"""Draws random programs whose ranks have several host threads, and computes their order, like `naive`.

Each thread has its own point and its own awaits. In each rank one thread is current, and it makes all ops of the rank.
It is not blocked in a flag or a join. The rules of flags follow the docstring of `dpsim.contract.interface.Flag`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpsim.contract.ops import MAIN
from tests.checks.happens_before.naive import Program

FLAGS = ("ready", "go")
THREADS = ("u1", "u2", "u3")
OWN = dict(zip((MAIN, *THREADS), ("main", "side", "copy", "more"), strict=True))
"""The stream that a thread mostly uses, so that streams order few ops of different threads."""


@dataclass
class Host:
    """A thread. `point`: its last point. `works`: the works that it has started and not awaited. `stands`: the work
    that blocks it. `let_go`: the point after which it continues, None while no op releases it.
    """

    point: int
    works: list[tuple[Any, int]] = field(default_factory=list)
    stands: Any = None
    let_go: int | None = None

    @property
    def able(self) -> bool:
        return self.stands is None or self.let_go is not None


class ThreadedProgram(Program):
    """A random program of one to three ranks, with up to four threads each."""

    def __init__(self, seed: int, ops: int = 120) -> None:
        self.own = ""
        self.threads: dict[int, dict[str, Host]] = {}
        self.present: dict[int, str] = {}
        self.flags: dict[tuple[int, str], int | None] = {}
        self.waiting: dict[tuple[int, str], list[Host]] = {}
        self.ended: dict[tuple[int, str], int] = {}
        self.joining: dict[tuple[int, str], list[Host]] = {}
        super().__init__(seed, ops=ops)

    def act(self) -> None:
        if not self.threads:
            self.contents = "all"
            self.threads = {rank: {MAIN: Host(self.host[rank], self.works[rank])} for rank in range(self.size)}
            self.present = dict.fromkeys(range(self.size), MAIN)
            self.names = tuple(OWN.values())
            self.tails = [dict.fromkeys(self.names) for _ in range(self.size)]
        rank = self.rng.randrange(self.size)
        self.own = OWN[self.present[rank]]
        if self.rng.random() < 0.5:
            names = ["switch"] * 4 + ["start"] * 3 + ["end"] * 3 + ["join_thread"] * 2 + ["query_flag"]
            getattr(self, self.rng.choice([*names, "set_flag", "set_flag", "clear_flag", "wait_flag", "late_wait"]))(
                rank
            )
        else:
            super().act()

    def stream(self) -> str:
        return self.own if self.rng.random() < 0.8 else self.rng.choice(self.names)

    # ---- switches between threads

    def switch(self, rank: int) -> bool:
        """Makes another thread current. Returns False if all others are blocked."""
        own, threads = self.present[rank], self.threads[rank]
        others = [name for name, host in threads.items() if host.able and name != own]
        if not others:
            return False
        threads[own].point, threads[own].works = self.host[rank], self.works[rank]
        self.enter(rank, self.rng.choice(others))
        return True

    def enter(self, rank: int, name: str) -> None:
        host = self.threads[rank][name]
        self.present[rank] = self.made[rank].thread = name
        self.host[rank], self.works[rank] = host.point, host.works
        if host.stands is not None:
            self.made[rank].learned(host.stands, None)
            self.issue(rank, host.let_go)
            host.stands = host.let_go = None

    def stand(self, rank: int, work: Any, let_go: int | None, line: list[Host]) -> None:
        """Blocks the current thread in its await, if another thread can continue. If the work has ended, it may return
        instead.
        """
        host = self.threads[rank][self.present[rank]]
        if let_go is not None and self.rng.random() < 0.5:
            self.made[rank].learned(work, None)
            self.issue(rank, let_go)
            return
        own = self.present[rank]
        if self.switch(rank):
            host.stands, host.let_go = work, let_go
            if let_go is None:
                line.append(host)
            assert self.present[rank] != own

    # ---- threads

    def start(self, rank: int) -> None:
        free = [name for name in THREADS if name not in self.threads[rank]]
        if free:
            self.made[rank].about_thread("start", free[0])
            self.threads[rank][free[0]] = Host(self.issue(rank))
            self.ended.pop((rank, free[0]), None)

    def end(self, rank: int) -> None:
        own = self.present[rank]
        if own == MAIN:
            return
        self.await_(rank)
        host = self.threads[rank][own]
        if not self.works[rank] and any(one.able for name, one in self.threads[rank].items() if name != own):
            self.made[rank].ended()
            point = self.ended[rank, own] = self.issue(rank)
            self.switch(rank)
            del self.threads[rank][own]
            assert host.able
            for one in self.joining.pop((rank, own), []):
                one.let_go = point

    def join_thread(self, rank: int) -> None:
        names = [name for name in THREADS if name in self.threads[rank] or (rank, name) in self.ended]
        names = [name for name in names if name != self.present[rank]]
        if names:
            name = self.rng.choice(names)
            work = self.made[rank].about_thread("join", name)
            self.issue(rank)
            self.stand(rank, work, self.ended.get((rank, name)), self.joining.setdefault((rank, name), []))

    # ---- flags

    def set_flag(self, rank: int) -> None:
        name = self.rng.choice(FLAGS)
        self.made[rank].flag("set", name)
        point = self.issue(rank)
        if self.flags.get((rank, name)) is None:
            self.flags[rank, name] = point
            for host in self.waiting.pop((rank, name), []):
                host.let_go = point

    def clear_flag(self, rank: int) -> None:
        name = self.rng.choice(FLAGS)
        self.made[rank].flag("clear", name)
        self.issue(rank)
        self.flags[rank, name] = None

    def wait_flag(self, rank: int, late: bool = False) -> None:
        name = self.rng.choice(FLAGS)
        work = self.made[rank].flag("wait", name)
        self.issue(rank)
        if late:  # the thread has not awaited yet, so others may set the flag and clear it
            own = self.present[rank]
            if self.switch(rank):
                self.set_flag(rank)
                self.clear_flag(rank)
                host = self.threads[rank][own]
                self.threads[rank][self.present[rank]].point = self.host[rank]
                self.threads[rank][self.present[rank]].works = self.works[rank]
                if not host.able:
                    return
                self.enter(rank, own)
            self.launch(rank)
        self.stand(rank, work, self.flags.get((rank, name)), self.waiting.setdefault((rank, name), []))

    def late_wait(self, rank: int) -> None:
        self.wait_flag(rank, late=True)

    def query_flag(self, rank: int) -> None:
        name = self.rng.choice(FLAGS)
        work = self.made[rank].flag("query", name)
        self.issue(rank)
        point = self.flags.get((rank, name))
        self.made[rank].learned(work, point is not None)
        self.issue(rank, point)
