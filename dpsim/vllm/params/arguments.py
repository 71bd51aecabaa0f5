"""The arguments of programs: topology, configuration, requests and the step clock, as plain data.

`EngineScenario` makes these arguments for every program. A program may list the optional fields that it reads
(`Program.heeds`); it then refuses a scenario that sets another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpsim.contract.program import Arguments, Program, Unsuitable


class Request(NamedTuple):
    """One request. Times are ns on the step clock; `output_tokens` includes the one that ends the prefill."""

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    abort_ns: int | None = None
    lora: str | None = None
    force_eager: bool = False  # its steps run without a CUDA graph, as by vLLM's argument of that name
    prefix: str | None = None  # requests of one prefix begin with the same tokens
    encoder_inputs: bool = False  # its first step brings inputs for an encoder
    stop_after: int | None = None  # output tokens until the model's stop token, which no scheduler knows before
    drafts: tuple[int, ...] | None = None  # the most of its decodes in turn; the last counts for all later ones
    structured_output: bool = False  # its tokens follow a grammar; a mask comes from the tokens before
    session: str | None = None  # it continues where its session's request before it ended

    @property
    def length(self) -> int:
        """Output tokens that its client receives."""
        return self.output_tokens if self.stop_after is None else min(self.stop_after, self.output_tokens)


SWITCHES = ("enable_eplb",)
"""Fields of the configuration that have no effect in a program without the part that they switch on."""


@dataclass(frozen=True)
class EngineArguments(Arguments):
    """Plain data of a world of engines.

    `topology` and `config` are the fields of `dpsim.vllm.config.Topology` and `dpsim.vllm.config.EngineConfig`.
    `step_ns`: the time between two ticks of the step clock. `config_by_rank` has the fields that single ranks have
    instead of those of `config`.
    """

    topology: Mapping[str, Any]
    config: Mapping[str, Any]
    requests: tuple[Request, ...]
    step_ns: int
    config_by_rank: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def config_of(self, rank: int) -> Mapping[str, Any]:
        """The fields of one rank's `dpsim.vllm.config.EngineConfig`."""
        return {**self.config, **self.config_by_rank.get(rank, {})}

    def refuse_unheeded(self, name: str, program: Program[Any]) -> None:
        """Raise Unsuitable for the first optional field that is set and that the program does not use.

        >>> class Small(Program):
        ...     heeds = ("stop_after",)
        ...     async def run(self, rank, prepared): ...
        >>> EngineArguments({}, {}, (Request(0, 1, 1, session="a"),), 1, form="").refuse_unheeded("small", Small())
        Traceback (most recent call last):
        dpsim.contract.program.Unsuitable: workload: request 0 has session, at which small does not look; remove it
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
                    raise Unsuitable(f"workload: request {number} has {word}, at which {name} does not look; remove it")
        own = ((f"config_by_rank.{rank}", config) for rank, config in self.config_by_rank.items())
        for place, config in (("config", self.config), *own):
            for key in SWITCHES:
                if key not in heeds and config.get(key):
                    raise Unsuitable(f"{place}.{key}: {name} does not look at it; remove it")
