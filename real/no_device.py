"""The device of a service: none. A service needs no GPU and is no member of a device communicator.

`dpsim.backend.calls.rank` refuses the streams of a service, so no call reaches this class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpsim.backend.calls.graphs import JournaledGraph
from dpsim.backend.memory.pools import GraphPool
from dpsim.contract.interface import DeviceCommunicator
from dpsim.contract.world import CommunicatorSpec
from real.communicators import Group
from real.rank import RealDevice, RealRank, RealStream

NONE = "a service has no device"


class NoDevice(RealDevice):
    """The device of a process without one."""

    def connect(self, spec: CommunicatorSpec, store: Any, index: int) -> Any:
        raise AssertionError(NONE)

    def stream(self, rank: RealRank, name: str) -> RealStream:
        raise AssertionError(NONE)

    def communicator(self, rank: RealRank, group: Group) -> DeviceCommunicator:
        raise AssertionError(NONE)

    def graph(self, rank: RealRank, name: str, pool: GraphPool) -> JournaledGraph:
        raise AssertionError(NONE)

    def clear(self) -> None:
        pass

    def abort(self, process_groups: Iterable[Any]) -> None:
        pass

    def is_idle(self, seconds: float) -> bool:
        return True

    def versions(self) -> dict[str, str]:
        import torch

        return {"torch": torch.__version__, "numpy": np.__version__}
