"""Flags as a CUDA stream sees them: words of pinned memory, written by the host and waited for by the device.

A stream waits by cuStreamWaitValue32 (CUDA Driver API, Stream Memory Operations). It looks at the word when it reaches
that point, and again and again until the word is 1. In a capture CUDA keeps that as a batch memory operation, so each
replay looks by itself. The host writes the word as any other memory, which is no call of CUDA and is allowed at all
times.

All words are taken when a worker starts: to take pinned memory may wait for the device, and a capture forbids it.

    word = words.take()
    wait_for_word(stream, word.address)         # what is put on the stream from now on waits
    word.set()
"""

from __future__ import annotations

import ctypes
from typing import Any

from real.cuda_errors import driver

EQUAL = 1
"""CU_STREAM_WAIT_VALUE_EQ."""


class DriverError(RuntimeError):
    """A call of CUDA's driver failed. `error_code`: the number that it gave."""

    def __init__(self, call: str, error_code: int) -> None:
        super().__init__(f"{call} says {error_code}")
        self.error_code = error_code


class DeviceWord:
    """A word: 0 is clear, 1 is set. `address`: where the device finds it, which is where the host does."""

    __slots__ = ("_array", "address")

    def __init__(self, array: Any, address: int) -> None:
        self._array = array
        self.address = address

    def set(self) -> None:
        self._array[0] = 1

    def clear(self) -> None:
        self._array[0] = 0


class Words:
    """The words of a device. `memory`: pinned, int32. `first`: the address of the first."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self._array = memory.numpy()
        self._size = int(memory.element_size())
        self.first = int(memory.data_ptr())
        self._taken = 0

    def take(self) -> DeviceWord:
        """One that is clear, until the job ends. RuntimeError if there are no more."""
        at = self._taken
        if at == len(self._array):
            raise RuntimeError(f"streams of a rank wait for more than {at} flags in one job; use fewer flags")
        self._taken += 1
        self._array[at] = 0
        return DeviceWord(self._array[at : at + 1], self.first + at * self._size)

    def let_go(self) -> None:
        """The job was given up: all that wait go on."""
        self._array[:] = 1

    def give_back(self) -> None:
        """The job is over, and nothing waits any more."""
        self._taken = 0


def wait_for_word(stream: int, address: int) -> None:
    """Hold a stream until the word there is 1."""
    pointer, value, how = ctypes.c_uint64(address), ctypes.c_uint32(1), ctypes.c_uint(EQUAL)
    result = driver().cuStreamWaitValue32_v2(ctypes.c_void_p(stream), pointer, value, how)
    if result:
        raise DriverError("cuStreamWaitValue32", result)
