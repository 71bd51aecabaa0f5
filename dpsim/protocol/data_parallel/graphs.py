"""Which CUDA graph a batch runs in: the V1 dispatcher (specification 5.1 and 5.4). Pure: tables made once, then
look-ups.

A graph exists for a few token counts. A batch is padded up to the next one and looked up, FULL first, then
PIECEWISE; without a match it runs eagerly with its own count. Ranks dispatch twice: alone, to know what to ask for,
and after the agreement, with the agreed count and restricted to the agreed mode.

    >>> from dpsim.config import EngineConfig
    >>> dispatcher = Dispatcher(EngineConfig(cudagraph_capture_sizes=(1, 2, 4, 8), max_num_seqs=6))
    >>> dispatcher.dispatch(3, uniform_decode=True)
    (<RuntimeMode.FULL: 2>, Descriptor(num_tokens=4, num_reqs=4, uniform=True, has_lora=False))
    >>> dispatcher.dispatch(5, uniform_decode=True)[0]        # no decode graph of 8 requests: falls back (example A-14)
    <RuntimeMode.PIECEWISE: 1>
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Set
from typing import NamedTuple

from dpsim.config import EngineConfig, RuntimeMode

ALL_MODES = frozenset(RuntimeMode)


class Descriptor(NamedTuple):
    """The key of a graph. `num_reqs` None: any number of requests."""

    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False


class Dispatcher:
    """The tables of one configuration."""

    def __init__(self, config: EngineConfig) -> None:
        self.mode = config.cudagraph_mode
        self.sizes = config.capture_sizes if self.mode != "NONE" else ()
        self.q = config.uniform_decode_query_len
        self.max_num_seqs = config.max_num_seqs
        self.keys: dict[RuntimeMode, set[Descriptor]] = {mode: set() for mode in RuntimeMode}
        both = config.enable_lora and config.cudagraph_specialize_lora
        for has_lora in (True, False) if both else (config.enable_lora,):
            self._register(has_lora)

    def _register(self, has_lora: bool) -> None:
        mixed, decode = self.mode.mixed_mode, self.mode.decode_mode
        if mixed is not RuntimeMode.NONE:
            for size in self.sizes:
                self.keys[mixed].add(self._key(mixed, size, False, has_lora))
        if decode is RuntimeMode.FULL and self.mode.separate_routine:
            for size in self.sizes:
                if self.q <= size <= self.q * self.max_num_seqs:
                    self.keys[decode].add(self._key(decode, size, True, has_lora))

    def _key(self, mode: RuntimeMode, size: int, uniform: bool, has_lora: bool) -> Descriptor:
        if mode is RuntimeMode.PIECEWISE:
            return Descriptor(size, None, False, has_lora)
        if uniform and self.mode.separate_routine:
            assert size % self.q == 0, f"a decode graph of {size} tokens does not hold whole requests of {self.q}"
            return Descriptor(size, size // self.q, True, has_lora)
        return Descriptor(size, min(size, self.max_num_seqs), False, has_lora)

    def dispatch(
        self,
        num_tokens: int,
        uniform_decode: bool,
        *,
        has_lora: bool = False,
        allowed: Set[RuntimeMode] = ALL_MODES,
    ) -> tuple[RuntimeMode, Descriptor]:
        """Mode and descriptor for a batch. A batch that matches no graph keeps its own token count in mode NONE.

        Raises AssertionError if no graph matches and NONE is not in `allowed`: then the ranks would split.
        """
        if self.sizes and num_tokens <= self.sizes[-1] and allowed != {RuntimeMode.NONE}:
            padded = self.sizes[bisect_left(self.sizes, num_tokens)]
            for mode in (RuntimeMode.FULL, RuntimeMode.PIECEWISE):
                key = self._key(mode, padded, uniform_decode and padded % self.q == 0, has_lora)
                if mode in allowed and key in self.keys[mode]:
                    return mode, key
        assert RuntimeMode.NONE in allowed, (
            f"no graph for {num_tokens} tokens (uniform decode: {uniform_decode}) in the agreed mode "
            f"{'/'.join(mode.name for mode in sorted(allowed))}"
        )
        return RuntimeMode.NONE, Descriptor(num_tokens)
