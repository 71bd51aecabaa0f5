"""Flags as a CUDA stream sees them: words of pinned memory, which the host writes and the device polls.

A stream waits by cuStreamWaitValue32 (CUDA Driver API, Stream Memory Operations). When it reaches that point, it polls
the word until the word is 1. In a capture, CUDA stores this as a batch memory operation, so each replay polls again.
The host writes the word as ordinary memory; this is no CUDA call, so it is allowed at any time.

The worker allocates all words at its start, because an allocation of pinned memory may wait for the device, and a
capture forbids it.

    word = words.take()
    wait_for_word(stream, word.address)         # later work of the stream waits
    word.set()
"""

from __future__ import annotations

import ctypes
from typing import Any

from real.cuda_errors import driver

EQUAL = 1
"""CU_STREAM_WAIT_VALUE_EQ."""


class DriverError(RuntimeError):
    """A call of CUDA's driver failed. `error_code`: its result."""

    def __init__(self, call: str, error_code: int) -> None:
        super().__init__(f"{call} says {error_code}")
        self.error_code = error_code


class DeviceWord:
    """A word: 0 is clear, 1 is set. `address`: its address, the same for device and host."""

    __slots__ = ("_array", "address")

    def __init__(self, array: Any, address: int) -> None:
        self._array = array
        self.address = address

    def set(self) -> None:
        self._array[0] = 1

    def clear(self) -> None:
        self._array[0] = 0


class Words:
    """The words of a device. `memory`: pinned, int32. `first`: the address of the first word."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self._array = memory.numpy()
        self._size = int(memory.element_size())
        self.first = int(memory.data_ptr())
        self._taken = 0

    def take(self) -> DeviceWord:
        """Returns a clear word, which is reserved until the job ends. RuntimeError if there are no more."""
        at = self._taken
        if at == len(self._array):
            raise RuntimeError(f"streams of a rank wait for more than {at} flags in one job; use fewer flags")
        self._taken += 1
        self._array[at] = 0
        return DeviceWord(self._array[at : at + 1], self.first + at * self._size)

    def let_go(self) -> None:
        """The parent gave up the job: sets all words, so that waiting streams continue."""
        self._array[:] = 1

    def give_back(self) -> None:
        """The job is over and nothing waits any more: frees all words."""
        self._taken = 0


def wait_for_word(stream: int, address: int) -> None:
    """Lets a stream wait until the word at that address is 1."""
    pointer, value, how = ctypes.c_uint64(address), ctypes.c_uint32(1), ctypes.c_uint(EQUAL)
    result = driver().cuStreamWaitValue32_v2(ctypes.c_void_p(stream), pointer, value, how)
    if result:
        raise DriverError("cuStreamWaitValue32", result)
