"""Worker pools for the tests of `real`: one for each backend of this folder, and one of NCCL for the whole session.
The tests of gloo run on one worker of pytest-xdist. The pools of this folder end with its last test, because idle
workers of gloo poll their sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from dpsim.contract.world import World
from dpsim.runner import find_backend
from real.backend import TorchBackend
from tests.real import worlds


@pytest.fixture(scope="package")
def backends() -> Iterator[Callable[[str], TorchBackend]]:
    """Returns a function that returns the backend of a name, and creates it at the first call."""
    made: dict[str, TorchBackend] = {}

    def find(name: str) -> TorchBackend:
        if name not in worlds.BACKENDS:
            return cast(TorchBackend, find_backend(name))  # the plugin of dpsim closes it
        if name not in made:
            made[name] = worlds.BACKENDS[name]()
        return made[name]

    yield find
    for backend in made.values():
        backend.close()


@pytest.fixture
def backend(request: pytest.FixtureRequest, backends: Callable[[str], TorchBackend]) -> TorchBackend:
    """Returns the backend with which the test is parametrized."""
    backend = backends(request.param)
    reason = backend.unavailable(2)
    if reason is not None:
        pytest.skip(reason)
    return backend


@pytest.fixture
def world() -> World:
    """Returns a world without the group "ep". Few programs use it, and NCCL needs time to create it after each
    fault.
    """
    return worlds.make_world(devices=["dp"])
