"""What the ops on a GPU need of torch, looked up once, and pinned memory that reads use again.

Python runs several times as slowly between calls of CUDA as in a loop without them. So the number of calls at every op
matters, and not their speed. One `CudaCalls` is made for each device and lives as long as its worker. Tests make one of
functions that reach no device.

    calls = CudaCalls(torch.device("cuda", 0))
    free = calls.landings[(4, 2), "int32"]                      # for reads of that form
    landing = free.pop() if free else Landing(calls, ((4, 2), "int32"))
    pinned, array = landing.view(((4, 2), "int32"))             # one memory: torch's view of it and numpy's
    ...                                                         # copy into it, wait for landing.mark, copy it out
    free.append(landing)
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, TypeAlias

from dpsim.contract.dtypes import CARRIERS, NUMPY
from dpsim.contract.interface import HostArray
from dpsim.contract.ops import DTYPES
from real.calls import torch_dtype
from real.cuda_errors import driver
from real.cuda_flags import Words, wait_for_word

Form: TypeAlias = tuple[tuple[int, ...], str]
"""Shape and dtype."""

WORDS = 1024
"""Streams may wait for at most this number of flags of a job."""


class CudaCalls:
    """The functions of torch that every op calls, for one device."""

    __slots__ = (
        "alias",
        "current",
        "device",
        "dtypes",
        "empty",
        "event",
        "graph",
        "index",
        "landings",
        "nodes",
        "pool",
        "set_current",
        "wait_for_word",
        "words",
    )

    def __init__(self, device: Any) -> None:
        import torch

        self.device = device
        self.index = device.index
        self.current = torch._C._cuda_getCurrentRawStream
        """The number of the device's current stream: a tenth of a microsecond."""
        self.set_current = torch.cuda.set_stream
        self.empty = torch.empty
        self.event = torch._C._CudaEventBase
        """What `torch.cuda.Event` derives from: its methods are these, with a function of Python around each."""
        self.dtypes = {name: torch_dtype(name) for name in (*DTYPES, "uint8")}
        self.landings = Landings()
        self.alias = alias
        self.graph = new_graph
        self.pool = torch.cuda.graph_pool_handle
        self.nodes = count_nodes
        self.words = Words(torch.zeros(WORDS, dtype=torch.int32, pin_memory=True))
        self.wait_for_word = wait_for_word


class Landing:
    """Pinned memory into which a read copies, and the event behind the copy.

    A read takes one and gives it back after it has copied the result out. If a program never awaits a read, its landing
    is lost, and torch's allocator does not reuse the memory before the copy is done.
    """

    __slots__ = ("_block", "_dtypes", "mark", "views")

    def __init__(self, calls: CudaCalls, form: Form) -> None:
        self._block = calls.empty(block_size(form), dtype=calls.dtypes["uint8"], pin_memory=True)
        self._dtypes = calls.dtypes
        self.views: dict[Form, tuple[Any, HostArray]] = {}
        self.mark = calls.event()

    def view(self, form: Form) -> tuple[Any, HostArray]:
        """Its memory as a tensor of that form, and as an array. Made once; then it is in `views`."""
        shape, dtype = form
        tensor = self._block[: math.prod(shape) * DTYPES[dtype]].view(self._dtypes[dtype]).view(shape)
        array = tensor.numpy()
        view = self.views[form] = tensor, array.view(NUMPY[dtype]) if dtype in CARRIERS else array
        return view


class Landings(dict[Form, list[Landing]]):
    """Those that are free, by form. Forms of about one size share a list, so there are never more of them than reads
    were under way at a time. Taking pinned memory may wait for the device, so the memory that a device has at its start
    (`CudaDevice`) has to last.
    """

    def __init__(self) -> None:
        self._by_size: dict[int, list[Landing]] = {}

    def __missing__(self, form: Form) -> list[Landing]:
        free = self[form] = self._by_size.setdefault(block_size(form), [])
        return free


def block_size(form: Form) -> int:
    """Bytes of the block for it: a power of two, as torch's allocator of pinned memory has them."""
    shape, dtype = form
    return 1 << max(2, (math.prod(shape) * DTYPES[dtype] - 1).bit_length())


def new_graph() -> Any:
    """A graph that has to be instantiated, and of which CUDA's own can be asked for until it is reset."""
    import torch

    return torch.cuda.CUDAGraph(keep_graph=True)


class Bytes:
    """Device memory, as torch takes it from other libraries."""

    def __init__(self, first: int, count: int) -> None:
        self.__cuda_array_interface__ = {"data": (first, False), "shape": (count,), "typestr": "|u1", "version": 2}


def alias(tensor: Any) -> Any:
    """The same memory, which torch's allocator may give out to others."""
    import torch

    if not tensor.nbytes:
        return tensor
    memory = torch.as_tensor(Bytes(tensor.data_ptr(), tensor.nbytes), device=tensor.device)
    return memory.view(tensor.dtype).view(tensor.shape)


def count_nodes(graph: int) -> int:
    """Nodes of a cudaGraph_t."""
    count = ctypes.c_size_t()
    result = driver().cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count))
    if result:
        raise RuntimeError(f"cuGraphGetNodes says {result}")
    return count.value


RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""


class Relaxed:
    """A block in which this thread may ask for events whatever other threads capture. In CUDA's own mode such a query
    is refused while another thread captures in mode "global", and destroys that capture (CUDA Driver API,
    cuThreadExchangeStreamCaptureMode).
    """

    def __enter__(self) -> None:
        self._before = exchange_mode(RELAXED)

    def __exit__(self, *error: object) -> None:
        exchange_mode(self._before)


def exchange_mode(mode: int) -> int:
    """Set how this thread takes part in captures; gives what it was before."""
    exchanged = ctypes.c_int(mode)
    result = driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(exchanged))
    if result:
        raise RuntimeError(f"cuThreadExchangeStreamCaptureMode says {result}")
    return exchanged.value


def mark_on(stream: Any) -> Any:
    """An event behind all that is on the stream now."""
    import torch

    mark = torch.cuda.Event()
    mark.record(stream)
    return mark
