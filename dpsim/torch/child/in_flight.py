"""Finds a tensor that the program changes between a call and its `wait`, while the call may read or write it.

    tensors = TensorsInFlight("send", [t])      # at the call
    tensors.check()                             # at the wait: raises WrittenInFlight if the program has changed t

It compares contents: `_version` counts writes to the whole memory of a view, and misses those of numpy and `.data`. So
a write of equal values is no finding, nor is a tensor whose memory the program has replaced or freed. dpsim fills the
tensors of a call when the rank waits. Such a fill may change a tensor of another call, and `filled` allows for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsim.torch.child.frames import users_place
from dpsim.torch.child.pieces import content

_open: dict[int, TensorsInFlight] = {}
"""The tensors of the calls that the program has not waited for, by `id`."""


class WrittenInFlight(BaseException):
    """The program changed a tensor of a call before it waited. No `except Exception` of the program catches this."""


class TensorsInFlight:
    """The tensors of one call. `call`: its name in torch. `tensors`: those that it reads or writes."""

    def __init__(self, call: str, tensors: Sequence[Any]) -> None:
        self.call, self.place = call, users_place()
        self.tensors = list(tensors)
        self.states = [*map(_state, self.tensors)]
        _open[id(self)] = self

    def drop(self) -> None:
        """Ends the flight without a check."""
        _open.pop(id(self), None)
        self.tensors, self.states = [], []

    def check(self) -> None:
        """Ends the flight. Raises WrittenInFlight if a tensor in its old memory has new contents."""
        _open.pop(id(self), None)
        for tensor, (memory, contents) in zip(self.tensors, self.states, strict=True):
            if _memory(tensor) == memory and hash(content(tensor)) != contents:
                raise WrittenInFlight(f"the program changed a tensor of {self.call} at {self.place} before its wait")

    def filled(self) -> None:
        """Allows for the change of other calls' tensors that lie in memory which dpsim filled for this call."""
        for other in _open.values():
            for at, tensor in enumerate(other.tensors):
                if any(_overlap(_memory(tensor), _memory(own)) for own in self.tensors):
                    other.states[at] = _state(tensor)


def _state(tensor: Any) -> tuple[range, int]:
    contents = hash(content(tensor))  # first, since it refuses a tensor without strides, such as a sparse one
    return _memory(tensor), contents


def _memory(tensor: Any) -> range:
    if not tensor.numel():
        return range(0)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return range(tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size())


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)
