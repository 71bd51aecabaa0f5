"""The V1 runner's dispatcher: it chooses the CUDA graph that a batch runs in (specification 5.1 and 5.4).

The dispatcher pads a batch to the next count that has a graph, and looks for a FULL graph, then a PIECEWISE one. If it
finds none, the batch runs eagerly with its own count. A data-parallel rank dispatches twice: before the agreement, and
with the agreed count and mode.

    0.14   the key of a mixed FULL graph has no number of requests; the caller can forbid FULL, but no other mode
    0.17   its key has min(size, max_num_seqs) requests. A uniform decode looks up size / q requests, where q is the
           tokens of a decode. In mode FULL with drafts (q > 1), it finds no graph
    0.24   a uniform decode looks up size / q only if decodes have separate graphs, so it finds a graph
    0.33   as 0.24

    >>> from dpsim.vllm.config import EngineConfig
    >>> config = EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8), max_num_seqs=6)
    >>> Dispatcher033(config).dispatch(3, uniform_decode=True)
    (<RuntimeMode.FULL: 2>, Descriptor(num_tokens=4, num_reqs=4, uniform=True, has_lora=False))
    >>> Dispatcher033(config).dispatch(5, uniform_decode=True)[0]   # no decode graph of 8 requests (example A-14)
    <RuntimeMode.PIECEWISE: 1>
    >>> drafts = EngineConfig(cudagraph_mode="FULL", cudagraph_capture_sizes=(2, 4), num_speculative_tokens=1)
    >>> [kind(drafts).dispatch(4, uniform_decode=True)[0].name for kind in (Dispatcher017, Dispatcher033)]
    ['NONE', 'FULL']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence, Set
from typing import ClassVar, NamedTuple

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.sizes import Ladder, Ladder017, Ladder024, Ladder033

ALL_MODES = frozenset(RuntimeMode)


class Descriptor(NamedTuple):
    """The key of a graph, `num_tokens` padded. `num_reqs` None: any number. `uniform`: each request has q tokens."""

    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False

    def relaxed(self) -> Descriptor:
        """The key of the graph for any number of requests, uniform or not."""
        return Descriptor(self.num_tokens, None, False, self.has_lora)


class Dispatcher(ABC):
    """The graphs of one configuration, equal on every rank. `sizes`: by default those that the release makes.

    AssertionError: a decode graph whose size is not a multiple of q.
    """

    ladder: ClassVar[Ladder]

    def __init__(self, config: EngineConfig, sizes: Sequence[int] | None = None) -> None:
        self.mode = config.cudagraph_mode
        given = self.ladder.sizes(config) if sizes is None else sizes
        self.sizes = tuple(sorted(set(given))) if self.mode != "NONE" else ()
        self.q = config.uniform_decode_query_len
        self.max_num_seqs = config.max_num_seqs
        self.keys: dict[RuntimeMode, set[Descriptor]] = {mode: set() for mode in RuntimeMode}
        both = config.enable_lora and config.cudagraph_specialize_lora
        for has_lora in (True, False) if both else (config.enable_lora,):
            self._register(has_lora)

    def _register(self, has_lora: bool) -> None:
        mixed, decode = self.mode.mixed_mode, self.mode.decode_mode
        if mixed is not RuntimeMode.NONE:
            self.keys[mixed].update(self.mixed_key(mixed, size, has_lora) for size in self.sizes)
        if decode is RuntimeMode.FULL and self.mode.separate_routine:
            decodes = [size for size in self.sizes if self.q <= size <= self.q * self.max_num_seqs]
            self.keys[decode].update(self.key(size, True, has_lora) for size in decodes)

    @abstractmethod
    def mixed_key(self, mode: RuntimeMode, size: int, has_lora: bool) -> Descriptor:
        """The key of the graph of `size` tokens for batches of any kind."""

    @abstractmethod
    def asks_for_decodes(self) -> bool:
        """Whether a uniform decode looks up a graph of uniform decodes."""

    def key(self, size: int, uniform: bool, has_lora: bool) -> Descriptor:
        """What a batch looks up first, padded to `size`. AssertionError: uniform, and `size` not a multiple of q."""
        if uniform and self.asks_for_decodes():
            requests, rest = divmod(size, self.q)
            assert not rest, f"a decode graph of {size} tokens does not hold whole requests of {self.q}"
            return Descriptor(size, min(requests, self.max_num_seqs), self.mode.separate_routine, has_lora)
        return Descriptor(size, min(size, self.max_num_seqs), False, has_lora)

    def dispatch(
        self,
        num_tokens: int,
        uniform_decode: bool,
        *,
        has_lora: bool = False,
        allowed: Set[RuntimeMode] = ALL_MODES,
    ) -> tuple[RuntimeMode, Descriptor]:
        """The mode and the graph of a batch. If no graph matches, the mode is NONE, and the batch keeps its own count.

        `allowed`: the modes that the caller permits. The method does not check them if the configured mode is NONE, or
        if the batch is larger than every graph: it returns NONE. Otherwise it searches for a graph. If it finds none
        and NONE is not allowed, it raises AssertionError, because the modes of the ranks would differ. It also raises
        AssertionError if the padded count of a uniform decode is not a multiple of q.
        """
        if not self.sizes or num_tokens > self.sizes[-1] or allowed == {RuntimeMode.NONE}:
            return RuntimeMode.NONE, Descriptor(num_tokens)
        exact = self.key(self.sizes[bisect_left(self.sizes, num_tokens)], uniform_decode, has_lora)
        if RuntimeMode.FULL in allowed:
            for key in (exact, exact.relaxed()):
                if key in self.keys[RuntimeMode.FULL]:
                    return RuntimeMode.FULL, key
        if RuntimeMode.PIECEWISE in allowed and exact.relaxed() in self.keys[RuntimeMode.PIECEWISE]:
            return RuntimeMode.PIECEWISE, exact.relaxed()
        self.nothing_found(num_tokens, uniform_decode, allowed)
        return RuntimeMode.NONE, Descriptor(num_tokens)

    def nothing_found(self, num_tokens: int, uniform_decode: bool, allowed: Set[RuntimeMode]) -> None:
        """Raises AssertionError if a batch without a graph may not run eagerly."""
        assert RuntimeMode.NONE in allowed, (
            f"no graph for {num_tokens} tokens (uniform decode: {uniform_decode}) in the agreed mode "
            f"{'/'.join(mode.name for mode in sorted(allowed))}"
        )


class Dispatcher014(Dispatcher):
    """Release 0.14. The caller can only forbid FULL, so NONE is always allowed."""

    ladder: ClassVar[Ladder] = Ladder017()

    def mixed_key(self, mode: RuntimeMode, size: int, has_lora: bool) -> Descriptor:
        return Descriptor(size, None, False, has_lora)

    def asks_for_decodes(self) -> bool:
        return self.mode.has_mode(RuntimeMode.FULL)

    def nothing_found(self, num_tokens: int, uniform_decode: bool, allowed: Set[RuntimeMode]) -> None:
        pass


class Dispatcher017(Dispatcher):
    """Release 0.17 and page 000. In mode FULL with drafts, a uniform decode looks up a key that no graph has."""

    ladder: ClassVar[Ladder] = Ladder017()

    def mixed_key(self, mode: RuntimeMode, size: int, has_lora: bool) -> Descriptor:
        key = self.key(size, False, has_lora)
        return key if mode is RuntimeMode.FULL else key.relaxed()

    def asks_for_decodes(self) -> bool:
        return self.mode.has_mode(RuntimeMode.FULL)


class Dispatcher024(Dispatcher017):
    """Release 0.24. If decodes have no separate graphs, a uniform decode looks up the same keys as other batches."""

    ladder: ClassVar[Ladder] = Ladder024()

    def asks_for_decodes(self) -> bool:
        return self.mode.separate_routine


class Dispatcher033(Dispatcher024):
    """Release 0.33, which has other graph sizes than 0.24."""

    ladder: ClassVar[Ladder] = Ladder033()
