"""How long each op takes on the simulated machine, in integer nanoseconds. All figures are *reference* values, not a
calibration.

Sources: published H200 tables for NCCL, and measurements of gloo on one node (100 to 400 us). In the tables a small
all-reduce takes about 2.9 us + 1.64 us a rank. Ring bandwidth is about 350 GB/s, and a send and receive take about 3
us. The costs give a plausible order of events and plausible waits, not predictions.
"""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """Nanoseconds, or nanoseconds per KiB. A send of at most `eager_bytes` ends before its receive."""

    kernel: int = 5_000
    device_collective: int = 2_900
    device_collective_per_rank: int = 1_640
    device_collective_per_kib: int = 3
    host_collective: int = 137_000
    host_collective_per_rank: int = 10_000
    host_collective_per_kib: int = 600
    device_transfer: int = 3_500
    host_transfer: int = 60_000
    eager_bytes: int = 65_536
    message: int = 50_000
    read: int = 8_000

    def on_device(self, ranks: int, nbytes: int) -> int:
        """Returns the time of a device collective over `ranks` ranks, from the last arrival to its end."""
        per_rank = self.device_collective_per_rank * ranks
        return self.device_collective + per_rank + self.device_collective_per_kib * nbytes // 1024

    def on_host(self, ranks: int, nbytes: int) -> int:
        """Returns the time of a host collective over `ranks` ranks, from the last arrival to its end."""
        per_rank = self.host_collective_per_rank * ranks
        return self.host_collective + per_rank + self.host_collective_per_kib * nbytes // 1024


REFERENCE = Costs()
