"""The arguments of a program of the model: topology, configuration, requests and the step clock, as plain data.

`EngineScenario` makes these arguments from a scenario file, for every program. A program may list the optional request
fields that it reads (`Program.heeds`). A scenario that sets another optional field is then refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpsim.contract.program import Arguments, Program, Unsuitable


class Request(NamedTuple):
    """One request. Times are in ns on the step clock; `output_tokens` includes the token that the prefill samples."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    abort_ns: int | None = None
    lora: str | None = None
    force_eager: bool = False  # its steps run without a CUDA graph, as with vLLM's argument of that name
    prefix: str | None = None  # requests with the same prefix begin with the same tokens
    encoder_inputs: bool = False  # its first step contains inputs for an encoder
    stop_after: int | None = None  # output tokens up to the model's stop token, which no scheduler can foresee
    drafts: tuple[int, ...] | None = (
        None  # the largest number of drafts of each decode in turn; the last holds for all later decodes
    )
    structured_output: bool = False  # its tokens follow a grammar, whose mask depends on the previous tokens
    session: str | None = None  # it continues where the previous request of this session ended

    @property
    def length(self) -> int:
        """The number of output tokens that the client receives."""
        return self.output_tokens if self.stop_after is None else min(self.stop_after, self.output_tokens)


SWITCHES = ("enable_eplb",)
"""Configuration fields that switch a part of a program on. In a program without that part they have no effect."""


@dataclass(frozen=True)
class EngineArguments(Arguments):
    """The arguments of a program, as plain data.

    `topology` and `config` contain the fields of `dpsim.vllm.config.Topology` and `dpsim.vllm.config.EngineConfig`.
    `step_ns` is the time between two ticks of the step clock, in ns. `config_by_rank` contains, for single ranks,
    fields that replace those of `config`.
    """

    topology: Mapping[str, Any]
    config: Mapping[str, Any]
    requests: tuple[Request, ...]
    step_ns: int
    config_by_rank: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def config_of(self, rank: int) -> Mapping[str, Any]:
        """Returns the fields of the `dpsim.vllm.config.EngineConfig` of one rank."""
        return {**self.config, **self.config_by_rank.get(rank, {})}

    def refuse_unheeded(self, name: str, program: Program[Any]) -> None:
        """Raises Unsuitable for the first optional field that the scenario sets and that the program does not read.

        >>> class Small(Program):
        ...     heeds = ("stop_after",)
        ...     async def run(self, rank, prepared): ...
        >>> EngineArguments({}, {}, (Request(0, 1, 1, session="a"),), 1, form="").refuse_unheeded("small", Small())
        Traceback (most recent call last):
        dpsim.contract.program.Unsuitable: workload: request 0 has session, which small does not use; remove it
        """
        if program.heeds is not None:
            self._refuse_fields(name, program.heeds)
        if self.config_by_rank and not program.honours_config_by_rank:
            of = type(program).__qualname__
            raise Unsuitable(
                f"config_by_rank: {of} gives all ranks the same config; remove it, or let {of}.prepare ask "
                "Arguments.config_of(rank) and set honours_config_by_rank"
            )

    def _refuse_fields(self, name: str, heeds: tuple[str, ...]) -> None:
        fields = [(key, default) for key, default in Request._field_defaults.items() if key not in heeds]
        for number, request in enumerate(self.requests):
            for key, default in fields:
                if getattr(request, key) != default:
                    word = key.removesuffix("_ns")
                    raise Unsuitable(f"workload: request {number} has {word}, which {name} does not use; remove it")
        own = ((f"config_by_rank.{rank}", config) for rank, config in self.config_by_rank.items())
        for place, config in (("config", self.config), *own):
            for key in SWITCHES:
                if key not in heeds and config.get(key):
                    raise Unsuitable(f"{place}.{key}: {name} does not use it; remove it")
