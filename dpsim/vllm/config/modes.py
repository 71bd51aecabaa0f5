"""Modes of CUDA graphs: the mode in which a batch runs, and the configured mode.

    >>> CUDAGraphMode.FULL_AND_PIECEWISE.decode_mode, CUDAGraphMode.FULL_AND_PIECEWISE.mixed_mode
    (<RuntimeMode.FULL: 2>, <RuntimeMode.PIECEWISE: 1>)

Sources: specification chapters 0 (conventions) and 5.1 (modes).
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class RuntimeMode(IntEnum):
    """The mode in which a batch runs. Ranks send this integer to each other.

    NONE: eagerly. PIECEWISE: one graph for each piece of the model between attention ops. FULL: one graph for the whole
    forward.
    """

    NONE = 0
    PIECEWISE = 1
    FULL = 2


class CUDAGraphMode(StrEnum):
    """The configured mode. The last two are combinations, and no batch runs in them (specification 5.1)."""

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
        """Whether uniform decode batches have separate graphs."""
        return self in (CUDAGraphMode.FULL_DECODE_ONLY, CUDAGraphMode.FULL_AND_PIECEWISE)

    def has_mode(self, mode: RuntimeMode) -> bool:
        """Returns whether a batch may run in `mode`."""
        return mode in _MODES[self]


_MODES = {
    CUDAGraphMode.NONE: (RuntimeMode.NONE, RuntimeMode.NONE),
    CUDAGraphMode.PIECEWISE: (RuntimeMode.PIECEWISE, RuntimeMode.PIECEWISE),
    CUDAGraphMode.FULL: (RuntimeMode.FULL, RuntimeMode.FULL),
    CUDAGraphMode.FULL_DECODE_ONLY: (RuntimeMode.FULL, RuntimeMode.NONE),
    CUDAGraphMode.FULL_AND_PIECEWISE: (RuntimeMode.FULL, RuntimeMode.PIECEWISE),
}
