"""Tests of stores on real sockets: the results of programs, and that no socket still listens after any run."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsim.contract.ops import DECISION_VALUE, KIND, SITE
from dpsim.contract.world import BackendUnavailable, End, Lost, Run, Stranger, World
from dpsim.sim.backend import SimBackend
from dpsim.trace.given_ports import given_ports, named
from real import pool, ports
from real.backend import TorchBackend
from real.journal_reader import read_timed_journals
from real.pool import Pool
from real.ports import address, listen, listening, reach
from real.store_server import Server
from real.stores import StoreConnection
from real.waiting import Patience
from tests.properties import slow_but
from tests.real import programs, service_programs  # noqa: F401  # registers the test programs
from tests.real.listeners import listeners, outside
from tests.real.worlds import NCCL

pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group("gloo")

on_each = pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
on_all = pytest.mark.parametrize(
    "backend", [pytest.param("gloo", marks=pytest.mark.slow), "aborting", NCCL], indirect=True
)
in_proc = pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="looks into /proc")


@pytest.fixture
def port() -> int:
    """Returns a port that was free a moment ago."""
    listener = listen(0, 0)
    assert listener is not None
    with listener:
        number: int = listener.getsockname()[1]
        return number


def learned(run: Run, rank: int, label: str) -> Any:
    return [one[DECISION_VALUE] for one in run.journals[rank] if one[KIND] == "decision" and one[SITE] == label]


@on_each
def test_a_published_value_is_read_as_on_the_simulation(backend: TorchBackend, world: World) -> None:
    args = {"how": "publishes", "others": "reads"}
    run, simulated = backend.run(world, "real_stores", args), SimBackend().run(world, "real_stores", args)
    assert run.ends == simulated.ends == ["finished", "finished"]
    for one, other in zip(run.journals, simulated.journals, strict=True):
        assert named(one, given_ports(run.journals)) == named(other, given_ports(simulated.journals))
    assert learned(run, 1, "value") == [("value", (1, 2.5, None))]
    assert learned(run, 1, "large") == [3_000_000]
    assert learned(run, 1, "nothing") == learned(run, 1, "closed") == [None]


def asked(job: str) -> list[Any]:
    """Returns what a member of `job` reads of two keys in a store of job 1. The first key is the one that it has set
    itself.
    """
    listener = listen(0, 0)
    assert listener is not None
    patience, number = Patience(threading.Event(), polls=True), listener.getsockname()[1]
    own, other = (
        StoreConnection(connection, name) for name in ("job 1", job) if (connection := reach(0, number)) is not None
    )
    server = Server(listener, own.name, "job 1", print)
    server.start()
    own.set("theirs", 1, patience)
    while patience.answer(own.ask("theirs", patience), None) != 1:
        pass
    other.set("ours", 2, patience)
    wait = None if job == "job 1" else 100_000_000
    found = [patience.answer(other.ask(key, patience), wait) for key in ("ours", "theirs")]
    found.append(patience.answer(own.ask("ours", patience), wait))
    for line in (other, own):
        line.close()
    server.join()
    return found


def test_the_store_of_another_job_is_a_stranger_s() -> None:
    """Checks that a store of another job accepts no keys and never answers. The twin is a store of the same job."""
    assert asked("job 2") == [None, None, None]
    assert asked("job 1") == [2, 1, 2]


@on_each
def test_a_port_is_one_listener_s_on_each_node(backend: TorchBackend, world: World, port: int) -> None:
    args = {"how": "opens", "others": "opens", "port": port}
    run = backend.run(world, "real_stores", args)
    assert run.finished
    assert sorted(learned(run, 0, "opened") + learned(run, 1, "opened")) == [False, True]
    run = backend.run(replace(world, nodes=(0, 1)), "real_stores", args)
    assert learned(run, 0, "opened") + learned(run, 1, "opened") == [True, True]


@pytest.mark.slow
@on_each
def test_a_time_out_that_is_longer_than_the_stall_is_no_hang(backend: TorchBackend, world: World) -> None:
    world = replace(world, stall_ns=300_000_000)
    run = backend.run(world, "real_stores", {"how": "gets_for_long", "others": "ends"})
    assert (run.ends, run.observed) == (["finished", "finished"], "")
    assert learned(run, 0, "nothing") == [None]
    run = backend.run(world, "real_stores", {"how": "gets_for_ever", "others": "ends"})
    assert (run.ends, run.observed) == (["blocked", "finished"], "no rank moved for 0.3 s")


@on_each
def test_a_rank_whose_listener_died_reads_none(backend: TorchBackend, world: World, port: int) -> None:
    run = backend.run(world, "real_stores", {"how": "opens_and_goes", "others": "is_left", "port": port})
    assert run.ends == ["died", "finished"]
    assert learned(run, 1, "left") == learned(run, 1, "later") == [None]


# ---- strangers


@on_each
def test_a_stranger_has_its_port_and_never_answers(backend: TorchBackend, world: World, port: int) -> None:
    world = replace(world, nodes=(0, 1), strangers=(Stranger(port),))
    args = {"how": "joins_a_stranger", "others": "joins_a_stranger", "port": port}
    run = backend.run(world, "real_stores", args)
    assert run.finished
    for rank in (0, 1):
        assert learned(run, rank, "value") == [None]
        assert learned(run, rank, "nobody") == [True]
        assert learned(run, rank, "opened") == [(rank, rank == 1)]
    assert not left(backend, port), "the listener has ended with its job"


@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
def test_a_taken_port_of_a_stranger_is_a_loss(backend: TorchBackend, world: World, port: int) -> None:
    with (
        listening([Stranger(port)]),
        pytest.raises(Lost, match=f"port {port} of node 0, which the scenario gives to another program"),
    ):
        backend.run(replace(world, strangers=(Stranger(port),)), "real_stores", {"how": "ends", "others": "ends"})


@pytest.mark.parametrize("backend", ["gloo"], indirect=True)
def test_a_stranger_that_is_late_is_only_simulated(backend: TorchBackend, world: World, port: int) -> None:
    world = replace(world, strangers=(Stranger(port), Stranger(port, 1, late=True)))
    with pytest.raises(BackendUnavailable, match=r"take a port at any time .* from the beginning works everywhere"):
        backend.run(world, "real_stores", {"how": "ends", "others": "ends"})


# ---- sockets after a run

ENDS: dict[str, tuple[End, bool]] = {
    "opens": ("finished", True),
    "opens_and_raises": ("raised", False),
    "opens_and_waits": ("blocked", True),
    "opens_and_exits": ("died", False),
    "gets_for_ever": ("blocked", True),
}
"""For each program, how the rank ends that opens a store, and whether the store listens when all ranks have ended."""


@pytest.fixture
def seen(backend: TorchBackend, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns a list of the ports on which workers listen at the end of a job, before the pool closes them."""
    found: list[Any] = []
    read = read_timed_journals

    def look(paths: list[Path]) -> Any:
        alive = [one.process.pid for one in backend.pool.crew.all if not one.has_ended()]
        assert outside(alive) == []
        found.extend(number for _, number in listeners(alive))
        return read(paths)

    monkeypatch.setattr(pool, "read_timed_journals", look)
    return found


def left(backend: TorchBackend, port: int) -> bool:
    """Returns whether some process listens on the port after all ending processes are gone."""
    backend.pool.crew.wait()
    listener = listen(0, port)
    if listener is None:
        return True
    listener.close()
    return False


@in_proc
@on_all
@pytest.mark.parametrize("how", slow_but(ENDS, ("opens", "opens_and_exits").__contains__))
def test_nothing_is_left_listening(backend: TorchBackend, world: World, port: int, seen: list[Any], how: str) -> None:
    end, there = ENDS[how]
    told = replace(world, stall_ns=500_000_000) if end == "blocked" else world
    run = backend.run(told, "real_stores", {"how": how, "others": "ends", "port": port})
    assert run.ends == [end, "finished"]
    assert (port in seen) == there
    assert not left(backend, port)
    assert backend.run(world, "real_stores", {"how": "opens", "others": "ends", "port": port}).finished


@in_proc
@pytest.mark.parametrize("backend", ["aborting"], indirect=True)
def test_a_silent_pool_leaves_a_listener(
    backend: TorchBackend, world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The faulty twin: the pool does not tell its workers that the job is over, so the store of a finished program
    stays.
    """
    with monkeypatch.context() as patched:
        patched.setattr(Pool, "_leave", lambda self, watch: True)
        assert backend.run(world, "real_stores", {"how": "opens", "others": "ends", "port": port}).finished
        assert left(backend, port)
    backend.pool.kill()
    assert not left(backend, port)


@pytest.mark.parametrize("backend", ["aborting"], indirect=True)
def test_a_store_that_was_left_open_costs_no_process(backend: TorchBackend, world: World, port: int) -> None:
    args = {"how": "opens", "others": "ends", "port": port}
    assert backend.run(world, "real_stores", args).finished
    before = backend.pool.processes
    assert backend.run(world, "real_stores", args).finished
    assert backend.pool.processes == before


# ---- ports, without processes


def test_nodes_have_addresses_of_the_loopback_interface() -> None:
    assert [address(node) for node in (0, 1, 255, 256)] == ["127.0.0.1", "127.0.0.2", "127.0.1.0", "127.0.1.1"]
    for node in ((1 << 24) - 1, 1 << 40):
        with pytest.raises(ValueError, match="a machine has room for 16777215 nodes"):
            address(node)


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((address(0), 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_listen_returns_none_for_a_port_in_use_and_raises_other_errors(
    busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listen(0, busy) is None
    monkeypatch.setattr(ports, "address", lambda node: "192.0.2.1")  # of no interface
    with pytest.raises(OSError, match="assign"):
        listen(0, busy)


def test_a_port_whose_connections_were_closed_is_free(port: int) -> None:
    """Opens a port whose connections were closed. The system keeps them for a minute; without the right option, the
    next listener would fail.
    """
    listener = listen(0, port)
    assert listener is not None
    caller = reach(0, port)
    assert caller is not None
    answering, _ = listener.accept()
    listener.close()
    answering.close()  # this side closes first, so it keeps the connection
    assert caller.recv(1) == b""
    caller.close()
    again = listen(0, port)
    assert again is not None
    again.close()


def test_a_connection_to_itself_is_refused(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks a caller to whom the system gives the very port that it calls, so that it connects to itself."""

    class Bound(socket.socket):
        def __init__(self) -> None:
            super().__init__()
            self.bind((address(0), port))

    with Bound() as itself:
        itself.connect((address(0), port))
        assert itself.getsockname() == itself.getpeername(), "the system connects the socket to itself"
        itself.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
    monkeypatch.setattr(socket, "socket", Bound)
    assert reach(0, port) is None


def test_strangers_are_gone_after_an_error(port: int) -> None:
    def fails() -> None:
        with listening([Stranger(port), Stranger(port, 1)]):
            there = {(str(where), number) for where, number in listeners([os.getpid()])}
            assert there >= {("127.0.0.1", port), ("127.0.0.2", port)}
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert port not in {number for _, number in listeners([os.getpid()])}
