"""The functions of torch that ops on a GPU call, looked up once; and pinned memory that reads use again.

Python code between calls of CUDA runs several times slower than in a loop without them. So the number of Python calls
per op matters. A worker creates one `CudaCalls` for its device and keeps it. Tests create one from functions that reach
no device.

    calls = CudaCalls(torch.device("cuda", 0))
    free = calls.landings[(4, 2), "int32"]                      # for reads of that shape and dtype
    landing = free.pop() if free else Landing(calls, ((4, 2), "int32"))
    pinned, array = landing.view(((4, 2), "int32"))             # one memory: as a tensor and as a numpy array
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
"""The streams of a job can wait for at most this number of flags."""


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
        """Returns the number of the device's current stream, in a tenth of a microsecond."""
        self.set_current = torch.cuda.set_stream
        self.empty = torch.empty
        self.event = torch._C._CudaEventBase
        """The base class of `torch.cuda.Event`, whose methods have no Python function around them."""
        self.dtypes = {name: torch_dtype(name) for name in (*DTYPES, "uint8")}
        self.landings = Landings()
        self.alias = alias
        self.graph = new_graph
        self.pool = torch.cuda.graph_pool_handle
        self.nodes = count_nodes
        self.words = Words(torch.zeros(WORDS, dtype=torch.int32, pin_memory=True))
        self.wait_for_word = wait_for_word


class Landing:
    """Pinned memory into which a read copies, and the event after the copy.

    A read takes a landing, and returns it after it has copied the result out. If a program never awaits a read, its
    landing is lost, and torch's allocator does not reuse the memory before the copy is done.
    """

    __slots__ = ("_block", "_dtypes", "mark", "views")

    def __init__(self, calls: CudaCalls, form: Form) -> None:
        self._block = calls.empty(block_size(form), dtype=calls.dtypes["uint8"], pin_memory=True)
        self._dtypes = calls.dtypes
        self.views: dict[Form, tuple[Any, HostArray]] = {}
        self.mark = calls.event()

    def view(self, form: Form) -> tuple[Any, HostArray]:
        """Returns its memory as a tensor and as an array of that form. The first call creates them; later ones find
        them in `views`.
        """
        shape, dtype = form
        tensor = self._block[: math.prod(shape) * DTYPES[dtype]].view(self._dtypes[dtype]).view(shape)
        array = tensor.numpy()
        view = self.views[form] = tensor, array.view(NUMPY[dtype]) if dtype in CARRIERS else array
        return view


class Landings(dict[Form, list[Landing]]):
    """The free landings, by form. Forms of about one size share a list, so there are at most as many landings as
    simultaneous reads. An allocation of pinned memory may wait for the device, so the memory that `CudaDevice`
    allocates at its start has to suffice.
    """

    def __init__(self) -> None:
        self._by_size: dict[int, list[Landing]] = {}

    def __missing__(self, form: Form) -> list[Landing]:
        free = self[form] = self._by_size.setdefault(block_size(form), [])
        return free


def block_size(form: Form) -> int:
    """Returns the size in bytes of the block for a form: a power of two, as torch's allocator of pinned memory uses."""
    shape, dtype = form
    return 1 << max(2, (math.prod(shape) * DTYPES[dtype] - 1).bit_length())


def new_graph() -> Any:
    """Returns a torch graph that has to be instantiated explicitly, so that its cudaGraph_t can be read before a
    reset.
    """
    import torch

    return torch.cuda.CUDAGraph(keep_graph=True)


class Bytes:
    """Device memory in the form in which torch takes it from other libraries."""

    def __init__(self, first: int, count: int) -> None:
        self.__cuda_array_interface__ = {"data": (first, False), "shape": (count,), "typestr": "|u1", "version": 2}


def alias(tensor: Any) -> Any:
    """Returns a tensor on the same memory, without ownership, so torch's allocator may reuse the memory."""
    import torch

    if not tensor.nbytes:
        return tensor
    memory = torch.as_tensor(Bytes(tensor.data_ptr(), tensor.nbytes), device=tensor.device)
    return memory.view(tensor.dtype).view(tensor.shape)


def count_nodes(graph: int) -> int:
    """Returns the number of nodes of a cudaGraph_t."""
    count = ctypes.c_size_t()
    result = driver().cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count))
    if result:
        raise RuntimeError(f"cuGraphGetNodes says {result}")
    return count.value


RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""


class Relaxed:
    """A block in which this thread may query events while other threads capture. In CUDA's default mode, such a query
    fails while another thread captures in mode "global", and destroys that capture (CUDA Driver API,
    cuThreadExchangeStreamCaptureMode).
    """

    def __enter__(self) -> None:
        self._before = exchange_mode(RELAXED)

    def __exit__(self, *error: object) -> None:
        exchange_mode(self._before)


def exchange_mode(mode: int) -> int:
    """Sets the capture mode of this thread; returns the previous one."""
    exchanged = ctypes.c_int(mode)
    result = driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(exchanged))
    if result:
        raise RuntimeError(f"cuThreadExchangeStreamCaptureMode says {result}")
    return exchanged.value


def mark_on(stream: Any) -> Any:
    """Returns an event recorded after all present work of the stream."""
    import torch

    mark = torch.cuda.Event()
    mark.record(stream)
    return mark
