"""Modes of CUDA graphs: the mode of a batch, and the configured mode.

    >>> CUDAGraphMode.FULL_AND_PIECEWISE.decode_mode, CUDAGraphMode.FULL_AND_PIECEWISE.mixed_mode
    (<RuntimeMode.FULL: 2>, <RuntimeMode.PIECEWISE: 1>)

Sources: specification chapters 0 and 5.1.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class RuntimeMode(IntEnum):
    """How a batch is run; on the wire as this integer (chapter 0)."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2


class CUDAGraphMode(StrEnum):
    """The configured mode; the last two exist only here, never at run time (chapter 5.1)."""

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    FULL = "FULL"
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"

    @property
    def decode_mode(self) -> RuntimeMode:
        """The mode of uniform decode batches."""
        return _MODES[self][0]

    @property
    def mixed_mode(self) -> RuntimeMode:
        """The mode of all other batches."""
        return _MODES[self][1]

    @property
    def separate_routine(self) -> bool:
        """Whether decode batches have separate graphs."""
        return self in (CUDAGraphMode.FULL_DECODE_ONLY, CUDAGraphMode.FULL_AND_PIECEWISE)

    def has_mode(self, mode: RuntimeMode) -> bool:
        """Whether some batch may run in `mode`."""
        return mode in _MODES[self]


_MODES = {
    CUDAGraphMode.NONE: (RuntimeMode.NONE, RuntimeMode.NONE),
    CUDAGraphMode.PIECEWISE: (RuntimeMode.PIECEWISE, RuntimeMode.PIECEWISE),
    CUDAGraphMode.FULL: (RuntimeMode.FULL, RuntimeMode.FULL),
    CUDAGraphMode.FULL_DECODE_ONLY: (RuntimeMode.FULL, RuntimeMode.NONE),
    CUDAGraphMode.FULL_AND_PIECEWISE: (RuntimeMode.FULL, RuntimeMode.PIECEWISE),
}
