"""Ranks and mailboxes: each call of a host thread is checked, written to the journal, and passed to the backend.

class MyRank(JournaledRank):
    def _post(self, to, mailbox, message, delay_ns): ...      # sends the message; does not wait
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.calls.inserted import make_call
from dpsim.backend.hosts.making import GroupWork, make_group
from dpsim.backend.hosts.stores import StoreWork, checked_port, look_up
from dpsim.backend.hosts.threads import JournaledFlag, JournaledThread, ThreadProgram, refuse_again, refuse_start
from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.call_site import is_word
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import PLAIN, check_plain, whole
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import (
    DeviceCommunicator,
    Flag,
    Frozen,
    Graph,
    HostCommunicator,
    Mailbox,
    Rank,
    Stream,
    Thread,
)
from dpsim.contract.rules.made_groups import GroupSpecs

C = TypeVar("C", bound=HostCommunicator | DeviceCommunicator)


class JournaledMailbox(Mailbox):
    """A mailbox, as the rank that reads it uses it."""

    __slots__ = ("name", "rank")

    def __init__(self, rank: JournaledRank, name: str) -> None:
        self.rank = rank
        self.name = name

    def poll(self, site: str) -> Work:
        journal = self.rank.journal
        if journal.turn is not None:
            journal.on("mailbox", f"{journal.rank}:{self.name}")
        delay = journal.note("take", site, (self.name, "poll", None))
        return Work(journal, self.rank._take(self.name, "poll", delay, None))

    def get(self, site: str, *, idle: bool = False, timeout_ns: int | None = None) -> Work:
        how = "idle" if idle else "get"
        if timeout_ns is not None:
            timeout_ns = whole(timeout_ns, "the time-out", site, 0)
            if idle:
                raise ValueError(f"{site}: a get with a time-out cannot be idle; leave out idle or timeout_ns")
        if timeout_ns == 0:  # a get with a time-out of 0 is a poll
            how, timeout_ns = "poll", None
        journal = self.rank.journal
        if journal.turn is not None:
            journal.on("mailbox", f"{journal.rank}:{self.name}")
        delay = journal.note("take", site, (self.name, how, timeout_ns))
        return Work(journal, self.rank._take(self.name, how, delay, timeout_ns))


class JournaledRank(Rank):
    """One rank, for all its host threads. The step tag is in the journal of each thread."""

    __slots__ = ("devices", "flags", "graphs", "hosts", "journal", "made", "pools", "started", "streams", "world")

    def __init__(self, journal: Journal) -> None:
        self.rank = journal.rank
        self.world = journal.shared.world
        self.journal = journal
        self.flags: dict[str, JournaledFlag] = {}
        self.started: dict[str, JournaledThread] = {}
        self.streams: dict[str, Any] = {}
        self.graphs: dict[str, JournaledGraph] = {}
        self.pools: dict[str, GraphPool] = {}
        self.hosts: dict[str, HostCommunicator] = {}
        self.devices: dict[str, DeviceCommunicator] = {}
        self.made: set[str] = set()
        if journal.shared.injections:
            journal.shared.injections.make = partial(make_call, self)

    @property
    def thread(self) -> str:
        return self.journal.thread

    @property
    def step(self) -> int:
        return self.journal.step

    @step.setter
    def step(self, step: int) -> None:
        self.journal.step = step if type(step) is int else whole(step, "the step", f"rank {self.rank}")

    def stream(self, name: str) -> Stream:
        stream: Stream | None = self.streams.get(name)
        if stream is None:
            if self.name:
                raise RuntimeError(
                    f"stream {name!r}: the service {self.name} has no device; it has mailboxes and stores"
                )
            stream = self.streams[name] = self._stream(name)
        return stream

    def graph(self, name: str, pool: str | None = None) -> Graph:
        graph = self.graphs.get(name)
        if graph is None:
            if not is_word(name) or not (pool is None or is_word(pool)):
                raise ValueError(
                    f"graph {name!r}, pool {pool!r}: a name is printable ASCII without spaces, as decode.4"
                )
            of = name if pool is None else pool
            graph = self.graphs[name] = self._graph(name, self.pools.setdefault(of, GraphPool(of)))
        elif pool is not None and graph.pool.name != pool:
            raise ValueError(f"graph {name} has its memory from pool {graph.pool.name}, not from {pool}")
        return graph

    def host(self, kind: str) -> HostCommunicator:
        return _find(self.hosts, kind, self.rank, "host")

    def device(self, kind: str) -> DeviceCommunicator:
        return _find(self.devices, kind, self.rank, "device")

    def group(self, name: str, ranks: Sequence[int], *, device: bool = False, site: str | None = None) -> GroupWork:
        return make_group(self, name, ranks, device, site)

    def mailbox(self, name: str) -> Mailbox:
        return JournaledMailbox(self, name)

    def flag(self, name: str) -> Flag:
        flag = self.flags.get(name)
        if flag is None:
            if not is_word(name):
                raise ValueError(f"the flag {name!r}: a name is printable ASCII without spaces, as baton.0")
            flag = self.flags[name] = self._flag(name)
        return flag

    def start(self, name: str, program: ThreadProgram, *, site: str | None = None) -> Thread:
        site = site or f"{name}.start"
        refuse_start(self, name, program)
        self.journal.about = "thread", name, "start"
        self.journal.come(site)
        refuse_again(self, name)
        self.journal.note("thread", site, (name, "start"))
        thread = self.started[name] = self._start(name, program)
        return thread

    def send(self, to: int, mailbox: str, message: Frozen, site: str) -> None:
        if message is None:
            raise ValueError(f"{site}: a message cannot be None, because poll returns None for an empty mailbox")
        if type(message) not in PLAIN or message != message:
            check_plain(message, "the message", site, named=False)
        if type(to) is not int:
            to = whole(to, "the rank that the message goes to", site)
        if self.journal.turn is not None:
            self.journal.on("mailbox", f"{to}:{mailbox}")
        delay = self.journal.note("post", site, (to, mailbox, message))
        self._post(to, mailbox, message, delay)

    def watch(self, actor: int, mailbox: str, site: str) -> None:
        if type(actor) is not int:
            actor = whole(actor, "the rank that is watched", site)
        if not 0 <= actor < self.world.actors or actor == self.rank:
            raise ValueError(
                f"{site}: rank {self.rank} watches rank {actor}; there are ranks 0 to {self.world.actors - 1}, and "
                "no rank can watch itself"
            )
        self.journal.note("watch", site, (actor, mailbox))
        self._watch(actor, mailbox)

    def sleep(self, ns: int, site: str) -> Work:
        if type(ns) is not int or ns < 0:
            ns = whole(ns, "the sleep", site, 0)
        if self.journal.turn is not None:
            self.journal.on("sleep", self.journal.thread)
        delay = self.journal.note("sleep", site, (ns,))
        return Work(self.journal, self._sleep(ns + delay))

    def turn(self, site: str) -> Work:
        delay = self.journal.note("sleep", site, (0,))
        return Work(self.journal, self._sleep(delay))

    def decide(self, label: str, value: Frozen, kind: str, *, local: bool = False) -> None:
        if type(value) not in PLAIN or value != value:
            check_plain(value, "the decision", label)
        if kind in self.hosts:
            name = self.hosts[kind].name
        elif kind in self.devices:
            name = self.devices[kind].name
        else:
            raise _missing([*self.hosts, *self.devices], kind, self.rank, "")
        self.journal.note("decision", label, (name, value, local))

    def probe(self, label: str) -> None:
        if self.journal.turn is not None:
            self.journal.on("probe", self.journal.thread)
        self.journal.note("probe", label, ())

    @abstractmethod
    def _make(self, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
        """Meets the other members in a barrier, one per issue. The outcome is the group's communicators."""

    @abstractmethod
    def _stream(self, name: str) -> Stream:
        """Creates a stream."""

    def _graph(self, name: str, pool: GraphPool) -> JournaledGraph:
        return JournaledGraph(self, name, pool)

    @property
    def name(self) -> str:
        return self.world.services[self.rank - self.world.size] if self.rank >= self.world.size else ""

    def service(self, name: str) -> int:
        try:
            return self.world.size + self.world.services.index(name)
        except ValueError:
            known = ", ".join(self.world.services) or "none"
            raise KeyError(f"no service {name!r}; this program has {known}") from None

    @property
    def node(self) -> int:
        return self.world.nodes[self.rank] if self.world.nodes else 0

    def open_store(self, port: int, site: str) -> StoreWork:
        port = checked_port(port, site)
        look_up(self.journal, site)
        self.journal.note("store", site, (self.node, port, "open", "", None))
        return StoreWork(self.journal, self._open_store(port))

    def join_store(self, node: int, port: int, site: str, *, timeout_ns: int | None = None) -> StoreWork:
        port, node = checked_port(port, site), whole(node, "the node", site, 0)
        wait = None if timeout_ns is None else whole(timeout_ns, "the time-out", site, 0)
        look_up(self.journal, site)
        self.journal.note("store", site, (node, port, "join", "", wait))
        return StoreWork(self.journal, self._join_store(node, port, wait))

    @abstractmethod
    def _open_store(self, port: int) -> Outcome:
        """Listens on a port of this node. The outcome is the store, or None."""

    @abstractmethod
    def _join_store(self, node: int, port: int, timeout_ns: int | None) -> Outcome:
        """Connects to a store. The outcome is the store, or None."""

    @abstractmethod
    def _flag(self, name: str) -> JournaledFlag:
        """Creates a flag, which is clear."""

    @abstractmethod
    def _start(self, name: str, program: ThreadProgram) -> JournaledThread:
        """Starts a host thread."""

    @abstractmethod
    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        """Sends a message, without waiting. Raises ValueError if there is no such rank."""

    @abstractmethod
    def _watch(self, actor: int, mailbox: str) -> None:
        """Lets the backend send ("gone", actor) to a mailbox of this rank when the actor is gone."""

    @abstractmethod
    def _take(self, mailbox: str, how: str, delay_ns: int, timeout_ns: int | None) -> Outcome:
        """The outcome is the message, or None if none comes in time. The record `Take` explains `how`."""

    @abstractmethod
    def _sleep(self, ns: int) -> Outcome:
        """Suspends the host for `ns`. The outcome is None."""


def _find(table: Mapping[str, C], kind: str, rank: int, domain: str) -> C:
    if kind not in table:
        raise _missing(table, kind, rank, f"{domain} ")
    return table[kind]


def _missing(known: Iterable[str], kind: str, rank: int, domain: str) -> KeyError:
    return KeyError(f"rank {rank} has no {domain}communicator {kind!r}; it has {', '.join(known) or 'none'}")
