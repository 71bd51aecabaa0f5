"""What the ops on a GPU need of torch, looked up once.

Python runs several times as slowly between calls of CUDA as in a loop of its own, so at every op few calls count, and
not fast ones. One `CudaCalls` is made for each device and lives as long as its worker. Tests make one of functions that
reach no device.

    calls = CudaCalls(torch.device("cuda", 0))
    calls.empty((4, 2), dtype=calls.dtypes["int32"], device=calls.device)
"""

from __future__ import annotations

from typing import Any

from dpsim.ops import DTYPES


class CudaCalls:
    """The functions of torch that every op calls, for one device."""

    __slots__ = ("current", "device", "dtypes", "empty", "event", "index", "set_current")

    def __init__(self, device: Any) -> None:
        import torch

        self.device = device
        self.index = device.index
        self.current = torch._C._cuda_getCurrentRawStream
        """The number of the device's current stream: a tenth of a microsecond."""
        self.set_current = torch.cuda.set_stream
        self.empty = torch.empty
        self.event = torch.cuda.Event
        self.dtypes = {name: getattr(torch, name) for name in DTYPES}


def mark_on(stream: Any) -> Any:
    """An event behind all that is on the stream now."""
    import torch

    mark = torch.cuda.Event()
    mark.record(stream)
    return mark
