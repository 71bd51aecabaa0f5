"""V1 dispatchers with one mistake each, which the properties of `test_dispatcher.py` find."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from dpsim.vllm.config import EngineConfig, RuntimeMode
from dpsim.vllm.graphs.dispatcher import (
    ALL_MODES,
    Descriptor,
    Dispatcher033,
)
from tests.vllm.graphs.queries import FULL, NONE, PIECEWISE

Answer = tuple[RuntimeMode, Descriptor]


class RoundsDown(Dispatcher033):
    """Faulty: dispatches a count below that of the batch."""

    def dispatch(self, num_tokens: int, uniform_decode: bool, **kwargs: Any) -> Answer:
        return super().dispatch(max([1, *(size for size in self.sizes if size < num_tokens)]), uniform_decode, **kwargs)


class NextSize(Dispatcher033):
    """Faulty: pads a batch that fits exactly to the next size."""

    def dispatch(self, num_tokens: int, uniform_decode: bool, **kwargs: Any) -> Answer:
        return super().dispatch(num_tokens + (num_tokens in self.sizes[:-1]), uniform_decode, **kwargs)


class ManyDecodes(Dispatcher033):
    """Faulty: registers decode graphs for more requests than `max_num_seqs`."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config.model_copy(update={"max_num_seqs": 2 * config.max_num_seqs}))


class AlwaysFull(Dispatcher033):
    """Faulty: answers FULL without testing whether the FULL graph exists."""

    def dispatch(self, num_tokens: int, uniform_decode: bool, **kwargs: Any) -> Answer:
        mode, key = super().dispatch(num_tokens, uniform_decode, **kwargs)
        return (FULL, key) if mode == PIECEWISE else (mode, key)


class PadsEager(Dispatcher033):
    """Faulty: pads a batch that runs without a graph."""

    def dispatch(self, num_tokens: int, uniform_decode: bool, **kwargs: Any) -> Answer:
        mode, key = super().dispatch(num_tokens, uniform_decode, **kwargs)
        return (mode, Descriptor(-(-key.num_tokens // 8) * 8)) if mode == NONE else (mode, key)


class OneRequest(Dispatcher033):
    """Faulty: registers graphs for one request only."""

    def key(self, size: int, uniform: bool, has_lora: bool) -> Descriptor:
        key = super().key(size, uniform, has_lora)
        return key if key.num_reqs is None else key._replace(num_reqs=1)


class IgnoresAllowed(Dispatcher033):
    """Faulty: answers with modes that the caller forbids."""

    def dispatch(
        self, num_tokens: int, uniform_decode: bool, *, has_lora: bool = False, allowed: Set[RuntimeMode] = ALL_MODES
    ) -> Answer:
        return super().dispatch(num_tokens, uniform_decode, has_lora=has_lora)


class ForgetsLora(Dispatcher033):
    """Faulty: looks up graphs without adapters for batches with adapters."""

    def dispatch(self, num_tokens: int, uniform_decode: bool, **kwargs: Any) -> Answer:
        return super().dispatch(num_tokens, uniform_decode, **(kwargs | {"has_lora": False}))


class NoFallback(Dispatcher033):
    """Runs a uniform decode without a decode graph eagerly.

    Source page 004 does this (spec chapter 5.3), but not chapter 5.4.
    """

    def dispatch(self, num_tokens: int, uniform_decode: bool, **kwargs: Any) -> Answer:
        mode, key = super().dispatch(num_tokens, uniform_decode, **kwargs)
        return (NONE, Descriptor(num_tokens)) if uniform_decode and mode == PIECEWISE else (mode, key)
