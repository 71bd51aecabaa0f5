"""One pool of workers for each backend, for all tests in this folder; those of gloo run on one worker of xdist."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dpsim.world import World
from real.backend import TorchBackend
from tests.real import worlds


@pytest.fixture(scope="session")
def backends() -> Iterator[Callable[[str], TorchBackend]]:
    """The backend of that name, made when a test first asks for it."""
    made: dict[str, TorchBackend] = {}

    def find(name: str) -> TorchBackend:
        if name not in made:
            made[name] = worlds.BACKENDS[name]()
        return made[name]

    yield find
    for backend in made.values():
        backend.close()


@pytest.fixture
def backend(request: pytest.FixtureRequest, backends: Callable[[str], TorchBackend]) -> TorchBackend:
    """The backend that the test is parametrized with."""
    backend = backends(request.param)
    reason = backend.unavailable(2)
    if reason is not None:
        pytest.skip(reason)
    return backend


@pytest.fixture
def world() -> World:
    return worlds.make_world()
