"""The model of the scenario's section `workload`: requests that are listed, drawn from a seed, or read from a trace.

workload:
  step_duration: 20ms
  requests:
    - {arrival: 0ms, prompt_tokens: 100, output_tokens: 20}
    - {arrival: 40ms, prompt_tokens: 7, output_tokens: 200, abort: 300ms}

workload:
  synthetic: {requests: 50, rate: 20, prompt_tokens: {min: 10, max: 400}, output_tokens: {min: 5, max: 60}}

workload:
  limit: 1000
  azure_csv: {file: AzureLLMInferenceTrace_code.csv}
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from dpsim.scenario.base import Flag, Problem, StrictModel, Word, refuse
from dpsim.scenario.duration import Duration, PositiveDuration, format_duration
from dpsim.vllm.config import MAX_TOKENS

MAX_REQUESTS = 1_000_000

TokenCount: TypeAlias = Annotated[int, Field(ge=1, le=MAX_TOKENS, strict=True)]
DraftCount: TypeAlias = Annotated[int, Field(ge=0, le=MAX_TOKENS, strict=True)]
RequestCount: TypeAlias = Annotated[int, Field(ge=1, le=MAX_REQUESTS, strict=True)]

SOURCES = ("requests", "synthetic", "azure_csv")


class RequestSpec(StrictModel):
    """One request of the workload."""

    arrival: Duration = 0
    """The arrival time, on the virtual step clock."""
    prompt_tokens: TokenCount
    """The number of prompt tokens, all of which arrive with the request."""
    output_tokens: TokenCount
    """The number of tokens to generate. The last chunk of the prompt generates the first one."""
    abort: Duration | None = None
    """The time at which the client aborts the request, after the arrival."""
    lora: Word | None = None
    """The LoRA adapter of the request; config.enable_lora must be true."""
    force_eager: Flag = False
    """Whether its steps must run without a CUDA graph."""
    prefix: Word | None = None
    """Requests with the same prefix begin with the same tokens, up to the shorter prompt; dp_batch caches them."""
    encoder_inputs: Flag = False
    """Whether its first step contains inputs for an encoder. dp_batch runs such a step without a FULL graph."""
    stop_after: TokenCount | None = None
    """The model generates a stop token as the last of this number of output tokens, at most output_tokens. The
    scheduler learns this from the result of that step. Steps that it scheduled for the request in the meantime are
    wasted.
    """
    drafts: Annotated[tuple[DraftCount, ...], Field(min_length=1, max_length=MAX_TOKENS)] | None = None
    """The largest number of draft tokens of each decode, in turn. The last number holds for all later decodes."""
    structured_output: Flag = False
    """Whether its tokens follow a grammar. The scheduler computes a mask for each token from the previous tokens.
    pp_tokens defers sampling until these are known.
    """
    session: Word | None = None
    """The requests of a session are one request to the engine, whose input arrives in parts. Each request continues
    where the previous one ended, and its prompt follows all earlier tokens. An abort ends the session. pp_tokens only.
    """

    @model_validator(mode="after")
    def _abort_after_arrival(self) -> Self:
        if self.abort is not None and self.abort <= self.arrival:
            abort, arrival = format_duration(self.abort), format_duration(self.arrival)
            refuse(Problem(("abort",), f"the abort at {abort} is not after the arrival at {arrival}"))
        return self

    @model_validator(mode="after")
    def _stops_in_time(self) -> Self:
        if self.stop_after is not None and self.stop_after > self.output_tokens:
            ends = f"it ends after {self.output_tokens} output tokens"
            refuse(Problem(("stop_after",), f"{self.stop_after}: {ends}; expected at most {self.output_tokens}"))
        return self


class Lengths(StrictModel):
    """Numbers of tokens between `min` and `max`, both included."""

    min: TokenCount
    """The smallest number of tokens."""
    max: TokenCount
    """The largest number of tokens."""
    distribution: Literal["uniform", "log_uniform"] = "uniform"
    """uniform: each length is equally likely. log_uniform: each order of magnitude is equally likely, so there are many
    short lengths and few long ones.
    """

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            refuse(Problem(("min",), f"min {self.min} is larger than max {self.max}"))
        return self


class Synthetic(StrictModel):
    """Requests that dpsim draws from a seed. They are equal on every machine and with every version of Python."""

    requests: RequestCount
    """The number of requests."""
    seed: Annotated[int, Field(ge=0, lt=1 << 64, strict=True)] = 0
    """The seed; another seed draws other requests."""
    rate: Annotated[float, Field(ge=0.001, le=1e9, allow_inf_nan=False, strict=True)] | None = None
    """Requests per second, which arrive at random times (a Poisson process). Unset: all arrive at the start."""
    prompt_tokens: Lengths
    output_tokens: Lengths


class AzureCsv(StrictModel):
    """A file of the Azure LLM inference trace, of 2023 or 2024."""

    file: Annotated[str, Field(strict=True, min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f]+$")]
    """The file name. dpsim searches the folder of the scenario file, $DPSIM_DATA, and the folders below them."""


class Workload(StrictModel):
    """The requests, and the clock of their arrivals. Exactly one of `requests`, `synthetic` and `azure_csv` is set."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [source]} for source in SOURCES]})

    step_duration: PositiveDuration = 20_000_000
    """The duration of a step on the virtual clock, which also times arrivals and aborts."""
    limit: RequestCount | None = None
    """Use only this number of requests, the first ones in the order of the source."""
    requests: Annotated[tuple[RequestSpec, ...], Field(min_length=1, max_length=MAX_REQUESTS)] | None = None
    """A list of requests."""
    synthetic: Synthetic | None = None
    """Random requests, which dpsim draws from a seed."""
    azure_csv: AzureCsv | None = None
    """Requests of the Azure LLM inference trace, read from a file."""

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Self:
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            place = (given[1],) if given else ()
            what = " and ".join(given) or "none"
            refuse(Problem(place, f"a workload has exactly one of {', '.join(SOURCES)}; given: {what}"))
        return self
