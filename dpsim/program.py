"""What runs on every rank, and what a scenario hands to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpsim.interface import Rank
from dpsim.ops import RawRecord


class Unsuitable(ValueError):
    """A world or workload that a program cannot run, raised by `Program.prepare`: what it is, and what was expected."""


class Program(ABC):
    """What runs on every rank: `prepare` once per process, `run` once per rank.

    `probes`: labels of `Rank.probe` that some schedule of some world should come to; exploration lists those that none
    came to.
    """

    probes: tuple[str, ...] = ()

    def reachable(self, prepared: Any) -> tuple[str, ...]:
        """Those of `probes` that this world can come to at all, all of them unless the program knows better."""
        return self.probes

    def prepare(self, args: Mapping[str, Any]) -> Any:
        """Turn plain data into what `run` needs. Ranks of one process share the result: `run` must not change it.

        `args`, from a scenario: `topology` and `config` (mappings, see `dpsim.config`), `requests` (tuples, see
        `dpsim.program.Request`), `step_ns`, `form` and `variant` (names; variant may be None).

        Raises Unsuitable.
        """
        return args

    def steps(self, prepared: Any) -> int | None:
        """How many steps the program will make, for the progress bar; None if that is not known."""
        return None

    def figures(self, prepared: Any, journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        """What a finished run says about the protocol, for the final table: name -> number, text, or mapping of
        such.
        """
        return {}

    @abstractmethod
    async def run(self, rank: Rank, prepared: Any) -> None:
        """The coroutine of one rank."""


class Request(NamedTuple):
    """One request. Times are ns on the step clock; `output_tokens` includes the one that ends the prefill."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    abort_ns: int | None = None
    lora: str | None = None
    force_eager: bool = False  # its steps run without a CUDA graph, as by vLLM's argument of that name
