"""Token counts with a graph: those that a release makes of the configured sizes, or of none (specification 5.11).

Without configured sizes there is a ladder: 1, 2, 4, by 8 to 256, by 16 above, up to min(2·q·max_num_seqs, 512 tokens,
the token budget). Releases differ, and a difference of releases is behaviour:

    0.17   a runner rounds sizes up to multiples of q if decodes have separate FULL graphs
    0.24   also in mode FULL; and the ladder has the token budget as well
    0.33   and the full batches of decodes

Both take two steps: the sizes of the configuration (`configured`), and the sizes that the V1 runner makes of them
(`sizes`). The V2 runner starts with the former.

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
"""Up to here the performance mode `interactivity` has a graph for every token count."""


def ladder(largest: int, fine: bool = False) -> set[int]:
    """1, 2, 4, by 8 to 256, by 16 above, up to `largest`; `fine`: all up to 32 instead of 1, 2, 4."""
    small = range(1, FINE + 1) if fine else (1, 2, 4)
    return {size for size in (*small, *range(8, 256, 8), *range(256, largest + 1, 16)) if size <= largest}


@dataclass(frozen=True)
class Ladder(ABC):
    """The sizes of one release. `most`: tokens of the largest default graph; 0.33 has 1024 on GPUs of compute
    capability 10.x.
    """

    most: int = 512

    def configured(self, config: EngineConfig) -> tuple[int, ...]:
        """The sizes of the configuration, in tokens, ascending: given sizes within the token budget, or the ladder.
        Empty without graphs.

        Raises ValueError if a given largest size contradicts the given sizes.
        """
        if config.cudagraph_mode == "NONE" or config.enforce_eager:
            return ()
        budget, asked = config.max_num_batched_tokens, config.max_cudagraph_capture_size
        if config.cudagraph_capture_sizes is None:
            default = min(2 * config.uniform_decode_query_len * config.max_num_seqs, self.most)
            largest = min(default if asked is None else asked, budget)
            sizes = ladder(largest, config.performance_mode == "interactivity")
            return tuple(sorted(sizes | {size for size in self.extras(config) if size <= largest}))
        given = tuple(sorted({size for size in config.cudagraph_capture_sizes if size <= budget}))
        if asked not in (None, max(given, default=0)):
            raise ValueError(
                f"max_cudagraph_capture_size is {asked}, and the largest of cudagraph_capture_sizes within the budget "
                f"of {budget} tokens is {max(given, default=0)}: make them equal, or leave one of them out"
            )
        return given

    def sizes(self, config: EngineConfig) -> tuple[int, ...]:
        """The sizes of the V1 runner, in tokens, ascending. For decode graphs of whole requests these are
        multiples of q up to the largest configured size, or [q] if there is none.

        Raises ValueError if q tokens are more than the largest size.
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
        """Sizes of the release besides the ladder, as far as they are not too large."""

    @abstractmethod
    def rounds(self, mode: CUDAGraphMode) -> bool:
        """Whether the V1 runner rounds its sizes to whole decodes."""


class Ladder017(Ladder):
    """Release 0.17, and 0.14 as far as it is known."""

    def extras(self, config: EngineConfig) -> Iterable[int]:
        return ()

    def rounds(self, mode: CUDAGraphMode) -> bool:
        return mode.decode_mode is RuntimeMode.FULL and mode.separate_routine


class Ladder024(Ladder017):
    """Release 0.24: a full budget has a graph that fits exactly, and all FULL graphs have to hold whole decodes."""

    def extras(self, config: EngineConfig) -> Iterable[int]:
        return (config.max_num_batched_tokens,)

    def rounds(self, mode: CUDAGraphMode) -> bool:
        return mode.decode_mode is RuntimeMode.FULL


class Ladder033(Ladder024):
    """Release 0.33: unless the largest size is configured, full batches of decodes have a graph that fits exactly."""

    def extras(self, config: EngineConfig) -> Iterable[int]:
        q, most = config.uniform_decode_query_len, config.max_num_seqs
        requests: set[int] = set()
        if config.max_cudagraph_capture_size is None:
            requests = {most} if q == 1 else ladder(most) | {most}
        return [*super().extras(config), *(q * count for count in sorted(requests))]
