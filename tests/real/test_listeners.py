"""Tests that no other machine can reach a pool: the parent and the workers listen only on loopback addresses."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dpsim.contract.world import BackendUnavailable, World
from real.backend import GlooBackend, TorchBackend
from tests.real import programs  # noqa: F401  # registers the test programs
from tests.real.listeners import listeners, outside
from tests.real.worlds import NCCL

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.xdist_group("gloo"),
    pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="looks into /proc"),
]


@pytest.mark.parametrize("backend", ["gloo", NCCL], indirect=True)
def test_a_pool_listens_on_loopback_alone(backend: TorchBackend, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the sockets of a pool, whatever network interface the environment names. Those variables are for ranks on
    several machines.
    """
    others = set(listeners([os.getpid()]))
    backend.pool.kill()
    backend.pool._store = None
    for library in ("GLOO", "NCCL"):
        monkeypatch.setenv(f"{library}_SOCKET_IFNAME", "eth0")
    assert backend.run(world, "real_rounds", {"rounds": 1}).finished
    assert backend.pool.processes
    assert outside(backend.pool.processes) == []
    assert set(listeners([os.getpid()])) - others, "the store listens in this process"
    assert [address for address, _ in set(listeners([os.getpid()])) - others if not address.is_loopback] == []
    assert listeners(backend.pool.processes), "gloo listens in the workers"
    backend.pool.kill()  # the next workers get the environment of the other tests


@pytest.mark.parametrize(("family", "everywhere"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
def test_a_listener_on_all_interfaces_is_seen(family: socket.AddressFamily, everywhere: str) -> None:
    """The faulty twin: a listener on all interfaces, as torch's store opens it by itself."""
    if family == socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("no IPv6")
    with socket.socket(family) as stranger:
        stranger.bind((everywhere, 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        assert f"{everywhere}:{port}" in outside([os.getpid()])
    assert f"{everywhere}:{port}" not in outside([os.getpid()])


@pytest.mark.slow
def test_after_a_set_up_that_failed_there_is_a_new_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that a pool opens a new store after a failed set-up, because any program may have filled the old one."""
    backend = GlooBackend()
    try:
        assert backend.run(world, "real_rounds", {"rounds": 1}).finished
        old = backend.pool._store.port

        def fails(*_: object) -> None:
            raise BackendUnavailable("full")

        with monkeypatch.context() as patched:
            patched.setattr(backend.pool.crew, "gather", fails)
            with pytest.raises(BackendUnavailable, match="full"):
                backend.run(world, "real_rounds", {"rounds": 1})
        assert backend.run(world, "real_rounds", {"rounds": 1}).finished
        assert backend.pool._store.port != old
        assert old not in {port for _, port in listeners([os.getpid()])}
    finally:
        backend.close()
