"""The backends of the tests in this folder, by name, and the world that most of them run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dpsim.contract.world import World
from real.backend import GlooBackend, TorchBackend
from tests.programs import world_of


class AbortingGloo(GlooBackend):
    """gloo with the recovery of NCCL: waits are polled, and after a hang the workers are made to give up and go on."""

    recovery = "abort"


BACKENDS: dict[str, type[TorchBackend]] = {"gloo": GlooBackend, "aborting": AbortingGloo}
"""Those of this folder alone. That of NCCL is the session's: what its workers need to start is a second and a GPU."""

NCCL = pytest.param("nccl", marks=pytest.mark.gpu(2))


def make_world(size: int = 2, devices: Sequence[str] = ("dp", "ep"), **changes: Any) -> World:
    """Ranks in one group of each kind. What shall hang sets a shorter stall; what shall not has a minute."""
    return world_of(size, ["dp_cpu"], devices, **{"stall_ns": 60_000_000_000, **changes})
