"""Memory of a graph's pool: which of it a replay takes again, and what that does to the rest.

The memory of a captured graph has fixed addresses. If the program frees some, a later allocation of the pool may get
it, in this capture or in another one. Both then have the same addresses for good, and each replay of one destroys what
the other holds. Kernels and collectives also take and give back memory, a *scratch*. A scratch may lie wherever memory
lies that was taken later, or was given back before. As PyTorch's allocator has it, memory is shared on one stream of
the capture alone, and small blocks never share with large ones.

Records have no word for that, and need none. A replay *takes again* what was given back: an ordinary alloc, under a new
number. What may share memory with it is freed before, by an ordinary free. So the checks of ordinary memory judge
graphs as well:

    capture a:  alloc x; write x; free x            capture b:  alloc y; write y
    replay a:   alloc x'; write x'
    replay b:   free x'; alloc y'; write y'         <- a later use of x' comes after its free

* Memory that was given back is *loose*: a weak reference to it is good until the pool gives something out.
* Memory that was not given back, but taken after a graph gave some back, ends its life at that graph's replay. It is
  *lost*, and begins another life, unwritten, when the program names it.

Numbers change with each life, so what is kept of a call names a `PoolMemory`, and looks up its number when it is
replayed.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakSet

from dpsim.backend.journal.journal import Journal
from dpsim.contract.ops import DTYPES, SMALL_BLOCK, DType, Place, Ref, Refs


class NamesMemory(Protocol):
    """What names memory: a buffer, a view of it, or one with a tag."""

    ref: Ref
    count: int
    dtype: DType
    place: Place | None
    freed: list[str]

    def renumber(self, number: int) -> None:
        """It has that number from now on."""


class CaptureOfPool(Protocol):
    """What buffers need of a capture."""

    under_way: bool
    journal: Journal

    def gave_back(self, buffer: Any, memory: PoolMemory, where: str) -> None:
        """The program frees memory of the graph."""

    def used(self, memory: PoolMemory) -> None:
        """`record_stream` on it."""


class PoolMemory:
    """What a buffer of a pool holds, life after life. `number`: of the present one. `taken`, `released`: when, by the
    count of its pool; 0: it was not given back.
    """

    def __init__(self, capture: CaptureOfPool, pool: GraphPool, home: str, address: tuple[str, int, str]) -> None:
        self.capture = capture
        self.pool = pool
        self.home = home
        self.site, self.ordinal, self.where = address
        self.number = -1
        self.form: tuple[int, DType, Place | None] = 0, "int32", None
        self.named: WeakSet[NamesMemory] = WeakSet()
        """All that names it: the buffer, its views, and those with tags."""
        self.gone: list[str] = []
        """Of these the mark that they have to ask before they are used."""
        self.taken = pool.tick()
        self.released = 0
        self.freed_at = ""
        self.alive = True
        """Whether its present life has not ended."""

    def of(self, buffer: NamesMemory) -> PoolMemory:
        """It is that buffer's, and one of the pool's."""
        self.pool.memories.append(self)
        self.number = buffer.ref[0]
        self.form = buffer.count, buffer.dtype, buffer.place
        self.gone = buffer.freed
        self.named.add(buffer)
        return self

    @property
    def small(self) -> bool:
        """Whether it lies among the small blocks."""
        count, dtype, _ = self.form
        return count * DTYPES[dtype] <= SMALL_BLOCK

    def may_get(self, older: PoolMemory) -> bool:
        """Whether it may have been given the memory of one that was given back before."""
        return 0 < older.released < self.taken and older.home == self.home and older.small == self.small

    def freed(self, where: str) -> None:
        """The program frees it. RuntimeError if it did so before."""
        if self.freed_at:
            raise RuntimeError(f"the buffer {self.site}[{self.ordinal}] was freed twice, first at {self.freed_at}")
        self.freed_at = where

    def give_back(self) -> None:
        """The pool has it again."""
        self.released = self.pool.tick()
        self.gone.clear()  # a weak reference needs no answer
        if self.alive:
            self.pool.loose.append(self)

    def ref(self) -> int:
        """Its number, for a call that names it: if it was lost, it begins another life."""
        if not (self.alive or self.released):
            self.pool.take(self, self.capture.journal)
        return self.number

    def end(self, journal: Journal) -> None:
        """Its life ends: journal the free."""
        self.alive = False
        if not self.released:
            self.gone.append(self.where)
        journal.free_again(self.home, self.site, self.ordinal, self.freed_at or self.where, self.number)

    def begin(self, journal: Journal) -> None:
        """Another life of it begins: journal the alloc."""
        count, dtype, place = self.form
        self.alive = True
        self.gone.clear()
        self.number = journal.number("buffer")
        journal.again("alloc", self.site, self.where, (self.home, self.number, count, dtype, place))
        self.ordinal = journal.ordinal
        for buffer in self.named:
            buffer.renumber(self.number)


class Scratch(PoolMemory):
    """The memory that the kernels of a graph take for themselves on one stream, of one kind of blocks. Each kernel
    takes it, writes it and gives it back. It may lie where memory lies that was taken after the first of them, or given
    back before one.
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
        """What the kernel of that count of the pool writes of it: nothing if no memory of the pool can overlap it."""
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
        """What the device's allocator knows it by, once it does."""
        self._count = 0

    def tick(self) -> int:
        """One thing more that happened to its memory."""
        self._count += 1
        return self._count

    def take(self, memory: PoolMemory, journal: Journal, new: bool = False) -> None:
        """The pool gives the memory out again, or it is `new`. First the life of all loose memory that may overlap it
        ends. Then the memory begins another life, unless it lives and overlaps no loose memory.
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
        """A graph of this memory is about to be replayed: what may have got memory that it gave back is lost."""
        back = [memory for memory in memories if memory.released]
        for other in self.memories:
            if other.alive and any(map(other.may_get, back)):
                if other in self.loose:
                    self.loose.remove(other)
                other.end(journal)

    def loosen(self, memories: list[PoolMemory]) -> None:
        """A replay of a graph of this memory is through: what was given back lives until the pool gives it out."""
        self.loose += [one for one in memories if one.released and one.alive and one not in self.loose]
