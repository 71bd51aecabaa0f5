"""The settings that must be equal on all engines, and how the front end compares them. There are two forms:

    hash      as in releases: READY has the hash of the parallel configuration, and the front end compares it with its
              hash if data parallelism is coordinated. It compares nothing else. Engines with other sizes start, and
              hang later in captures of other sizes (specification 8.4)
    fields    stricter than any release: engines send the hashed fields. They also send the unhashed ones that shape
              profile, warm-up and capture, before any group is made. The front end names each field that differs

    >>> from dpsim.vllm.config import EngineConfig
    >>> one, other = EngineConfig(max_num_seqs=4), EngineConfig(max_num_seqs=8)
    >>> differing(dict(shaping(one)), dict(shaping(other)))
    ['max_num_seqs: 8 there, 4 here']

Engines with different settings may hang before READY (specification 9.2, step 20), so the form `fields` compares before
any engine makes a group.

Source: specification 8.4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from dpsim.contract.interface import Frozen
from dpsim.vllm.config import EngineConfig, ParallelConfig, compute_hash, hashed_fields
from dpsim.vllm.startup.errors import ConfigMismatch

SHAPING = (
    *("max_num_seqs", "max_num_batched_tokens", "num_speculative_tokens", "cudagraph_mode"),
    *("cudagraph_capture_sizes", "max_cudagraph_capture_size", "capture_graphs", "enforce_eager"),
)
"""Fields that the hash leaves out. The number and sizes of the forwards before serving depend on them."""

Fields = tuple[tuple[str, str], ...]


class ConfigFields(NamedTuple):
    """What an engine sends of its configuration: the hash, and fields by name, as JSON."""

    hash: str
    fields: Fields

    @property
    def frozen(self) -> Frozen:
        return self.hash, self.fields


def shaping(config: EngineConfig) -> Fields:
    """The fields on which the forwards before serving depend."""
    data = config.model_dump(mode="json", include=set(SHAPING))
    return tuple((name, json.dumps(value)) for name, value in sorted(data.items()))


class Compared:
    """The form `hash` of releases: what a process sends, and when the front end refuses it.

    `early`: whether the front end compares before any engine makes a group.
    """

    early: ClassVar[bool] = False

    def coordinated(self, parallel: ParallelConfig) -> bool:
        """Whether hashes have to be equal. Engines of a dense model do not step in lockstep, and may differ."""
        return parallel.data_parallel_size > 1 and parallel.is_moe_model is not False

    def fields_to_send(self, config: EngineConfig, parallel: ParallelConfig) -> ConfigFields:
        """What a process sends of its configuration."""
        return ConfigFields(self.hash(parallel), ())

    def hash(self, parallel: ParallelConfig) -> str:
        return compute_hash(parallel)

    def refuse(self, own: ConfigFields, others: Mapping[str, ConfigFields]) -> None:
        """ConfigMismatch, with engines and fields, if another process sent something else than this one."""
        wrong = [
            f"{who}: {', '.join(differing(dict(own.fields), dict(received.fields))) or 'another hash'}"
            for who, received in others.items()
            if received != own
        ]
        if wrong:
            raise ConfigMismatch(
                f"engines were started with other settings than the front end: {'; '.join(wrong)}; give all nodes the "
                "same command line"
            )


class ComparedFields(Compared):
    """The form `fields`, for every model: hash and fields, before any group. No release does this."""

    early: ClassVar[bool] = True

    def coordinated(self, parallel: ParallelConfig) -> bool:
        return parallel.data_parallel_size > 1

    def fields_to_send(self, config: EngineConfig, parallel: ParallelConfig) -> ConfigFields:
        return ConfigFields(self.hash(parallel), (*self.hashed(parallel), *self.shaping(config)))

    def hashed(self, parallel: ParallelConfig) -> Fields:
        return tuple((name, json.dumps(value)) for name, value in hashed_fields(parallel).items())

    def shaping(self, config: EngineConfig) -> Fields:
        return shaping(config)


COMPARED: Mapping[str, type[Compared]] = MappingProxyType({"hash": Compared, "fields": ComparedFields})
"""The forms of the piece `compared`."""


def differing(own: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The fields that differ, each with both values."""
    names = sorted(own.keys() | other.keys())
    return [
        f"{name}: {other.get(name, 'unknown')} there, {own.get(name, 'unknown')} here"
        for name in names
        if own.get(name) != other.get(name)
    ]
