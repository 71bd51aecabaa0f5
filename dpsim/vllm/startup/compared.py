"""What all engines have to have alike, compared before anything can hang.

An engine tells the hash of its parallel configuration and the hashed fields, so that a mismatch can be named. The hash
covers the parallel configuration alone. What shapes profile, warm-up and capture is not in it (specification 8.4), and
differs where each node parses a command line of its own, so these fields are told and compared as well.

    >>> from dpsim.vllm.config import EngineConfig
    >>> one, other = EngineConfig(max_num_seqs=4), EngineConfig(max_num_seqs=8)
    >>> differing(dict(shaping(one)), dict(shaping(other)))
    ['max_num_seqs: 8 there, 4 here']

vLLM compares the hash when READY comes, by which time engines that differ may hang (specification 9.2, step 20); the
hash comes with READY here, too. Sources: specification chapter 8.4; museum area 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from dpsim.contract.interface import Frozen
from dpsim.vllm.config import EngineConfig, ParallelConfig, compute_hash, hashed_fields
from dpsim.vllm.startup.errors import ConfigMismatch

SHAPING = (
    *("max_num_seqs", "max_num_batched_tokens", "num_speculative_tokens", "cudagraph_mode"),
    *("cudagraph_capture_sizes", "max_cudagraph_capture_size", "capture_graphs", "enforce_eager"),
)
"""Fields of other configurations that decide how often, and with what sizes, all ranks run before they serve."""

Fields = tuple[tuple[str, str], ...]


class ConfigFields(NamedTuple):
    """What an engine tells of its configuration: fields by name, as JSON."""

    hash: str
    fields: Fields

    @property
    def frozen(self) -> Frozen:
        return self.hash, self.fields


def shaping(config: EngineConfig) -> Fields:
    """The fields that shape what runs before the engine serves."""
    data = config.model_dump(mode="json", include=set(SHAPING))
    return tuple((name, json.dumps(value)) for name, value in sorted(data.items()))


class Compared:
    """Of one process: what it tells, and what it makes of what others tell."""

    def told(self, config: EngineConfig, parallel: ParallelConfig) -> ConfigFields:
        """The configuration of a process."""
        return ConfigFields(self.hash(parallel), (*self.hashed(parallel), *self.shaping(config)))

    def hash(self, parallel: ParallelConfig) -> str:
        return compute_hash(parallel)

    def hashed(self, parallel: ParallelConfig) -> Fields:
        return tuple((name, json.dumps(value)) for name, value in hashed_fields(parallel).items())

    def shaping(self, config: EngineConfig) -> Fields:
        return shaping(config)

    def refuse(self, own: ConfigFields, others: Mapping[str, ConfigFields]) -> None:
        """Raises ConfigMismatch, which names engines and fields."""
        wrong = [
            f"{who}: {', '.join(differing(dict(own.fields), dict(told.fields))) or 'another hash'}"
            for who, told in others.items()
            if told != own
        ]
        if wrong:
            raise ConfigMismatch(
                f"engines were started with other settings than the front end: {'; '.join(wrong)}; give all nodes the "
                "same command line"
            )


def differing(own: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The fields that differ, with both values."""
    names = sorted(own.keys() | other.keys())
    return [
        f"{name}: {other.get(name, 'unknown')} there, {own.get(name, 'unknown')} here"
        for name in names
        if own.get(name) != other.get(name)
    ]
