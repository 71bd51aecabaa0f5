"""Where the requests of a scenario come from: written out, made up from a seed, or read from a trace.

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

These are the models only; `dpsim.vllm.params.workload.requests` makes requests of them.
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
    """One request."""

    arrival: Duration = 0
    """When it arrives, on the virtual step clock."""
    prompt_tokens: TokenCount
    """Tokens of the prompt, which the engine has at the arrival."""
    output_tokens: TokenCount
    """Tokens to generate; the first one comes with the last chunk of the prompt."""
    abort: Duration | None = None
    """When its client goes away: after the arrival."""
    lora: Word | None = None
    """The adapter that it needs; config.enable_lora must be true."""
    force_eager: Flag = False
    """Its steps may not use a CUDA graph."""
    prefix: Word | None = None
    """Requests of one prefix begin with the same tokens, as far as the shorter prompt goes: dp_batch caches them."""
    encoder_inputs: Flag = False
    """Its first step brings inputs for an encoder: dp_batch runs that without a FULL graph."""
    stop_after: TokenCount | None = None
    """The model says a stop token as the last of this number of output tokens, at most output_tokens. The scheduler
    learns it with the result of that step. Steps that it started for the request meanwhile are wasted.
    """
    drafts: Annotated[tuple[DraftCount, ...], Field(min_length=1, max_length=MAX_TOKENS)] | None = None
    """How many drafts its decodes have at most, one after the other; the last is that of all that follow."""
    structured_output: Flag = False
    """Its tokens follow a grammar: the scheduler makes a mask for each from the tokens before. pp_tokens defers
    sampling until these are known.
    """
    session: Word | None = None
    """Requests of one session are one request to the engine, whose input arrives bit by bit. Each continues where the
    one before ended, and its prompt follows all those tokens. An abort ends the session. pp_tokens only.
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
    """uniform: each length equally likely. log_uniform: each order of magnitude equally likely, so there are many short
    ones and few long ones.
    """

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            refuse(Problem(("min",), f"min {self.min} is larger than max {self.max}"))
        return self


class Synthetic(StrictModel):
    """Requests made up from a seed: the same ones everywhere, on every machine and with every Python."""

    requests: RequestCount
    """The number of requests."""
    seed: Annotated[int, Field(ge=0, lt=1 << 64, strict=True)] = 0
    """Another seed draws other requests."""
    rate: Annotated[float, Field(ge=0.001, le=1e9, allow_inf_nan=False, strict=True)] | None = None
    """Requests per second, arriving at random (a Poisson process). Left out: all arrive at the start."""
    prompt_tokens: Lengths
    output_tokens: Lengths


class AzureCsv(StrictModel):
    """The Azure LLM inference trace, 2023 or 2024."""

    file: Annotated[str, Field(strict=True, min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f]+$")]
    """In the folder of the scenario file or in $DPSIM_DATA, or in a folder below one of them."""


class Workload(StrictModel):
    """The requests, and the clock on which they arrive. Exactly one of `requests`, `synthetic` and `azure_csv`."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [source]} for source in SOURCES]})

    step_duration: PositiveDuration = 20_000_000
    """How long a step takes on the virtual clock that arrivals and aborts lie on."""
    limit: RequestCount | None = None
    """Only this number of requests, the first in the order of the source."""
    requests: Annotated[tuple[RequestSpec, ...], Field(min_length=1, max_length=MAX_REQUESTS)] | None = None
    """The requests, written out."""
    synthetic: Synthetic | None = None
    """Requests that dpsim draws."""
    azure_csv: AzureCsv | None = None
    """Requests of the Azure LLM inference trace."""

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Self:
        given = [source for source in SOURCES if getattr(self, source) is not None]
        if len(given) != 1:
            place = (given[1],) if given else ()
            what = " and ".join(given) or "none"
            refuse(Problem(place, f"a workload has exactly one of {', '.join(SOURCES)}; given: {what}"))
        return self
