"""The memory pool of graphs: which memory a replay allocates again, and which other memory this destroys.

The memory of a captured graph has fixed addresses. If the program frees some of it, a later allocation from the pool
may get it, in this capture or another one. Then each replay of one graph destroys the contents of the other. Kernels
and collectives also allocate and free *scratch* memory (`Scratch`). As in PyTorch's allocator, two buffers share memory
only on one stream of the capture, and small blocks never share with large ones.

Records need no special kind for this. If a replay uses memory that the program had freed, the journal records an
ordinary alloc, with a new number. Before that, it records an ordinary free of all memory that may overlap. So the
checks of ordinary memory also find the mistakes of graphs:

    capture a:  alloc x; write x; free x            capture b:  alloc y; write y
    replay a:   alloc x'; write x'
    replay b:   free x'; alloc y'; write y'         <- a later use of x' comes after its free

* Memory that the program freed is *loose*: a weak reference to it is valid until the pool gives the memory to another
  allocation.
* Memory that the program has not freed, but allocated after a graph freed some, is *lost* at that graph's replay. If
  the program uses it again, the journal records a new alloc without contents.

Memory gets a new number at each alloc. So a kept call refers to a `PoolMemory`, and looks up its present number at each
replay.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakSet

from dpsim.backend.journal.journal import Journal
from dpsim.contract.ops import DTYPES, SMALL_BLOCK, DType, Place, Ref, Refs


class NamesMemory(Protocol):
    """An object that names memory: a buffer, a view of it, or one with a tag."""

    ref: Ref
    count: int
    dtype: DType
    place: Place | None
    freed: list[str]

    def renumber(self, number: int) -> None:
        """The memory has a new number from now on."""


class CaptureOfPool(Protocol):
    """The methods of a capture that buffers call."""

    under_way: bool
    journal: Journal

    def gave_back(self, buffer: Any, memory: PoolMemory, where: str) -> None:
        """The program frees memory of the graph."""

    def used(self, memory: PoolMemory) -> None:
        """The program calls `record_stream` for memory of the graph."""


class PoolMemory:
    """Memory of one buffer of a pool; each replay may allocate it again. `number`: its present number in records.
    `taken`, `released`: the pool's count at the alloc and at the free; 0 if the program did not free it.
    """

    def __init__(self, capture: CaptureOfPool, pool: GraphPool, home: str, address: tuple[str, int, str]) -> None:
        self.capture = capture
        self.pool = pool
        self.home = home
        self.site, self.ordinal, self.where = address
        self.number = -1
        self.form: tuple[int, DType, Place | None] = 0, "int32", None
        self.named: WeakSet[NamesMemory] = WeakSet()
        """All objects that name it: the buffer, its views, and those with tags."""
        self.gone: list[str] = []
        """Shared by these objects: not empty if they have to check the memory before a use."""
        self.taken = pool.tick()
        self.released = 0
        self.freed_at = ""
        self.alive = True
        """Whether its present alloc has had no free yet."""

    def of(self, buffer: NamesMemory) -> PoolMemory:
        """Returns the memory of a buffer, and registers it in the pool."""
        self.pool.memories.append(self)
        self.number = buffer.ref[0]
        self.form = buffer.count, buffer.dtype, buffer.place
        self.gone = buffer.freed
        self.named.add(buffer)
        return self

    @property
    def small(self) -> bool:
        """Whether it is a small block."""
        count, dtype, _ = self.form
        return count * DTYPES[dtype] <= SMALL_BLOCK

    def may_get(self, older: PoolMemory) -> bool:
        """Whether its addresses may be those of `older`, which the program freed before this alloc."""
        return 0 < older.released < self.taken and older.home == self.home and older.small == self.small

    def freed(self, where: str) -> None:
        """The program frees it. Raises RuntimeError if it is free already."""
        if self.freed_at:
            raise RuntimeError(f"the buffer {self.site}[{self.ordinal}] was freed twice, first at {self.freed_at}")
        self.freed_at = where

    def give_back(self) -> None:
        """Returns it to the pool."""
        self.released = self.pool.tick()
        self.gone.clear()  # a weak reference needs no check
        if self.alive:
            self.pool.loose.append(self)

    def ref(self) -> int:
        """Returns its number, for a call that names it. If it was lost, records a new alloc first."""
        if not (self.alive or self.released):
            self.pool.take(self, self.capture.journal)
        return self.number

    def end(self, journal: Journal) -> None:
        """Records a free."""
        self.alive = False
        if not self.released:
            self.gone.append(self.where)
        journal.free_again(self.home, self.site, self.ordinal, self.freed_at or self.where, self.number)

    def begin(self, journal: Journal) -> None:
        """Records a new alloc."""
        count, dtype, place = self.form
        self.alive = True
        self.gone.clear()
        self.number = journal.number("buffer")
        journal.again("alloc", self.site, self.where, (self.home, self.number, count, dtype, place))
        self.ordinal = journal.ordinal
        for buffer in self.named:
            buffer.renumber(self.number)


class Scratch(PoolMemory):
    """The scratch memory of a graph's kernels on one stream, for one block size. Each kernel allocates, writes and
    frees it. It may overlap memory that was allocated after the first of these kernels, or freed before one of them.
    """

    def __init__(
        self, capture: CaptureOfPool, pool: GraphPool, home: str, address: tuple[str, int, str], small: bool
    ) -> None:
        super().__init__(capture, pool, home, address)
        self.form = 1 if small else SMALL_BLOCK, "int32", None
        self.first = self.taken
        self.released = pool.tick()
        self.alive = False

    def refs(self, journal: Journal, at: int) -> Refs:
        """Returns the scratch of a kernel with that count of the pool, unless no memory of the pool can overlap it."""
        pool = self.pool
        if not pool.loose and at != self.first:
            return ()
        self.taken = at
        hurt = next((one for one in pool.loose if self.may_get(one)), None)
        if hurt is None and at == self.first:
            hurt = next((one for one in pool.memories if one.may_get(self)), None)
        if hurt is None:
            return ()
        self.form = *self.form[:2], hurt.form[2]
        pool.take(self, journal)
        return ((self.number, 0, self.form[0]),)


class GraphPool:
    """The memory of one or more graphs of a rank."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.memories: list[PoolMemory] = []
        self.loose: list[PoolMemory] = []
        self.handle: Any = None
        """The handle of the device's allocator for this pool, once there is one."""
        self._count = 0

    def tick(self) -> int:
        """Returns the next count of events in this pool."""
        self._count += 1
        return self._count

    def take(self, memory: PoolMemory, journal: Journal, new: bool = False) -> None:
        """The pool gives memory out again, or for the first time (`new`). First it ends all loose memory that may
        overlap it. Then it records a new alloc, unless the present one is still valid and overlaps nothing.
        """
        if memory in self.loose:
            self.loose.remove(memory)
        lost = [one for one in self.loose if memory.may_get(one) or one.may_get(memory)]
        for other in lost:
            self.loose.remove(other)
            other.end(journal)
        if new and lost:
            memory.end(journal)
        if not memory.alive:
            memory.begin(journal)

    def overwrite(self, memories: list[PoolMemory], journal: Journal) -> None:
        """Called before a replay of a graph with this memory: memory that may overlap what the graph freed is lost."""
        back = [memory for memory in memories if memory.released]
        for other in self.memories:
            if other.alive and any(map(other.may_get, back)):
                if other in self.loose:
                    self.loose.remove(other)
                other.end(journal)

    def loosen(self, memories: list[PoolMemory]) -> None:
        """After a replay, what the program freed stays valid until the pool gives it out."""
        self.loose += [one for one in memories if one.released and one.alive and one not in self.loose]
