"""Checks of the memory and the peers of collectives and transfers. The file of each collective checks its other
arguments (`dpsim.contract.collectives`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.backend.hosts.work import Work
from dpsim.backend.journal.plain import typed, whole
from dpsim.contract.dtypes import NUMPY
from dpsim.contract.interface import Buffer, DeviceCommunicator, HostArray, HostCommunicator
from dpsim.contract.ops import DTYPES

_NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in NUMPY.items()}


def check_member(communicator: HostCommunicator | DeviceCommunicator, rank: int, what: str = "root") -> int:
    """Returns a root or peer as an int. Raises ValueError if it is no member of the group."""
    if type(rank) is not int:
        rank = whole(rank, f"the {what}", communicator.name)
    if rank not in communicator.ranks:
        raise ValueError(f"{communicator.name}: {what} {rank} is none of its ranks {communicator.ranks}")
    return rank


def check_peer(communicator: HostCommunicator | DeviceCommunicator, rank: int) -> int:
    """Returns a peer as an int. Raises ValueError if it is no member, or is this rank itself."""
    rank = check_member(communicator, rank, "peer")
    if rank == communicator.ranks[communicator.index]:
        raise ValueError(f"{communicator.name}: rank {rank} cannot send to or receive from itself")
    return rank


def unknown_dtype(dtype: Any, site: str) -> TypeError:
    """Returns the error for an element type that the contract does not have."""
    return TypeError(f"{site}: dtype {dtype!r} is none of {', '.join(DTYPES)}")


def count_of(communicator: DeviceCommunicator, buffer: Buffer | None) -> int:
    """Raises TypeError for what is no buffer. A later use finds a buffer of another backend."""
    try:
        count: int = buffer.count  # type: ignore[union-attr]
        if type(count) is int:  # a list has a method of that name
            return count
    except AttributeError:
        pass
    raise TypeError(
        f"{communicator.name}: a Buffer is needed, which Stream.alloc returns, not {typed(buffer)}; memory of the host "
        "goes through rank.host(...)"
    )


def dtype_of(array: HostArray, site: str) -> str:
    """Reads a cache, since numpy computes the name slowly. Raises TypeError for types that the contract lacks."""
    try:
        return _NAMES[array.dtype]
    except (AttributeError, KeyError, TypeError):
        pass
    if not isinstance(array, np.ndarray):
        cure = "write np.array(..., dtype=np.int32)"
        if isinstance(array, Buffer):
            cure = "await its read, or use rank.device(...)"
        elif isinstance(array, Work):
            cure = "its result is one"
        raise TypeError(f"{site}: a numpy array is needed, not {typed(array)}; {cure}")
    raise TypeError(f"{site}: dtype {array.dtype} is none of {', '.join(DTYPES)}; write array.astype(np.int32)")
