"""The backends of the tests in this folder, by name, and the world that most of them run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.contract.world import World
from real.backend import GlooBackend, TorchBackend
from tests.programs import world_of


class AbortingGloo(GlooBackend):
    """gloo with the recovery of NCCL: hosts poll, and after a hang the workers abandon their waits and continue."""

    recovery = "abort"


BACKENDS: dict[str, type[TorchBackend]] = {"gloo": GlooBackend, "aborting": AbortingGloo}
"""The backends of this folder only. The session shares the backend of NCCL, because its workers need a second and a GPU
to start.
"""

NCCL = pytest.param("nccl", marks=pytest.mark.gpu(2))


def make_world(size: int = 2, devices: Sequence[str] = ("dp", "ep"), **changes: Any) -> World:
    """Returns a world with one group of each kind. Tests of hangs set a shorter stall time than the default of a
    minute.
    """
    return world_of(size, ["dp_cpu"], devices, **{"stall_ns": 60_000_000_000, **changes})
