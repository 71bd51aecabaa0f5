"""The token counts that have a CUDA graph, by release (specification 5.11).

A user may configure the sizes. Otherwise the engine takes a default list: 1, 2, 4, then multiples of 8 up to 256, then
multiples of 16. The list ends at the least of three numbers: 2·q·max_num_seqs, 512 and the token budget. Here q is the
number of tokens of a decode. The releases differ:

    0.17   the runner rounds sizes up to multiples of q if decodes have separate FULL graphs
    0.24   it also rounds in mode FULL, and the list contains the token budget
    0.33   the list also contains the full batches of decodes

    >>> config = EngineConfig(max_num_seqs=5, num_speculative_tokens=1)
    >>> Ladder017().sizes(config), Ladder033().sizes(config)
    ((2, 4, 8, 16), (2, 4, 8, 10, 16))
    >>> given = EngineConfig(cudagraph_mode="FULL", cudagraph_capture_sizes=(1, 3, 4), num_speculative_tokens=1)
    >>> Ladder017().sizes(given), Ladder033().sizes(given)   # 3 would be rounded up to 4, the largest of them
    ((1, 3, 4), (2, 4))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from dpsim.vllm.config import CUDAGraphMode, EngineConfig, RuntimeMode

FINE = 32
"""In the performance mode `interactivity`, every token count up to this one has a graph."""


def ladder(largest: int, fine: bool = False) -> set[int]:
    """The default sizes: 1, 2, 4, multiples of 8 to 256, then of 16. `fine`: all counts up to 32."""
    small = range(1, FINE + 1) if fine else (1, 2, 4)
    return {size for size in (*small, *range(8, 256, 8), *range(256, largest + 1, 16)) if size <= largest}


@dataclass(frozen=True)
class Ladder(ABC):
    """The sizes of one release. `most`: 512 tokens; 1024 in release 0.33 on GPUs of compute capability 10.x."""

    most: int = 512

    def configured(self, config: EngineConfig) -> tuple[int, ...]:
        """Ascending, in tokens: the given sizes within the budget, or the defaults; none in NONE, `enforce_eager`.

        ValueError: `max_cudagraph_capture_size` contradicts the given sizes.
        """
        if config.cudagraph_mode == "NONE" or config.enforce_eager:
            return ()
        budget, wanted = config.max_num_batched_tokens, config.max_cudagraph_capture_size
        if config.cudagraph_capture_sizes is None:
            default = min(2 * config.uniform_decode_query_len * config.max_num_seqs, self.most)
            largest = min(default if wanted is None else wanted, budget)
            sizes = ladder(largest, config.performance_mode == "interactivity")
            return tuple(sorted(sizes | {size for size in self.extras(config) if size <= largest}))
        given = tuple(sorted({size for size in config.cudagraph_capture_sizes if size <= budget}))
        if wanted not in (None, max(given, default=0)):
            raise ValueError(
                f"max_cudagraph_capture_size is {wanted}, and the largest of cudagraph_capture_sizes within the budget "
                f"of {budget} tokens is {max(given, default=0)}: make them equal, or leave one of them out"
            )
        return given

    def sizes(self, config: EngineConfig) -> tuple[int, ...]:
        """Those of the V1 runner, in tokens, ascending.

        If decode graphs need whole requests, multiples of q up to the largest; only q, if there is none. ValueError: q
        is above the largest size.
        """
        configured, q = self.configured(config), config.uniform_decode_query_len
        if not configured or not self.rounds(config.cudagraph_mode):
            return configured
        largest = configured[-1]
        if q > largest:
            raise ValueError(
                f"no graph of at most {largest} tokens can hold one decode of {q} (1 + num_speculative_tokens): raise "
                "max_cudagraph_capture_size, or have fewer drafts"
            )
        rounded = {-(-size // q) * q for size in configured}
        return tuple(sorted({size for size in rounded if size <= largest} or {q}))

    @abstractmethod
    def extras(self, config: EngineConfig) -> Iterable[int]:
        """The sizes of the release besides the default list. The caller drops those that are too large."""

    @abstractmethod
    def rounds(self, mode: CUDAGraphMode) -> bool:
        """Whether the V1 runner rounds its sizes up to multiples of q."""


class Ladder017(Ladder):
    """Release 0.17. The model uses the same sizes for 0.14."""

    def extras(self, config: EngineConfig) -> Iterable[int]:
        return ()

    def rounds(self, mode: CUDAGraphMode) -> bool:
        return mode.decode_mode is RuntimeMode.FULL and mode.separate_routine


class Ladder024(Ladder017):
    """Release 0.24: the token budget has a graph, and the sizes of all FULL graphs are multiples of q."""

    def extras(self, config: EngineConfig) -> Iterable[int]:
        return (config.max_num_batched_tokens,)

    def rounds(self, mode: CUDAGraphMode) -> bool:
        return mode.decode_mode is RuntimeMode.FULL


class Ladder033(Ladder024):
    """Release 0.33: full batches of decodes have a graph, unless the user configures the largest size."""

    def extras(self, config: EngineConfig) -> Iterable[int]:
        q, most = config.uniform_decode_query_len, config.max_num_seqs
        requests: set[int] = set()
        if config.max_cudagraph_capture_size is None:
            requests = {most} if q == 1 else ladder(most) | {most}
        return [*super().extras(config), *(q * count for count in sorted(requests))]
