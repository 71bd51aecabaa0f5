"""Protocols with parameters: one with numbers, and one with a field of every kind."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dpsim import Arguments, Domain, PerRank, Program, Rank, register_protocol, register_variant


class Sizes(BaseModel):
    """Three numbers, one of which may differ between ranks."""

    ranks: int = Field(default=2, ge=1, le=8)
    steps: int = Field(ge=1, le=10)
    seen: PerRank[Annotated[int, Field(ge=0, le=3)]] = PerRank(0)


@register_protocol("t_largest", forms=("plain", "loud"))
class Largest(Program[Arguments[Sizes]]):
    """All ranks agree on the largest number that any rank has seen."""

    Params = Sizes

    @staticmethod
    def ranks(params: Sizes) -> int:
        return params.ranks

    async def run(self, rank: Rank, args: Arguments[Sizes]) -> None:
        hosts, main = rank.host("world"), rank.stream("main")
        for rank.step in range(args.params.steps):
            seen = np.array([args.params.seen[rank.rank]], np.int32)
            rank.decide("largest", self.largest(seen, await hosts.all_reduce(seen, op="max", site="agree")), "world")
            buffer = main.alloc(1, "int32", "seen")
            main.launch("fill", fill, writes=[buffer], args=(args.params.seen[rank.rank],))
            rank.device("world").all_reduce(buffer, main, op="max", site="agree.device")
            rank.decide("device", int((await buffer.read("look"))[0]), "world")

    def largest(self, own: np.ndarray[tuple[int, ...], np.dtype[np.int32]], of_all: object) -> int:
        """Returns the number on which a rank decides."""
        return int(np.asarray(of_all)[0])


@register_variant("T-OWN", protocol="t_largest", expected="DISAGREEMENT:LARGEST")
class Own(Largest):
    """A rank decides on the number that it has seen itself, instead of the largest."""

    def largest(self, own: np.ndarray[tuple[int, ...], np.dtype[np.int32]], of_all: object) -> int:
        return int(own[0])


def fill(buffer: np.ndarray[tuple[int, ...], np.dtype[np.int32]], number: int) -> None:
    """A kernel that fills a buffer with a number."""
    buffer[:] = number


class Mode(Enum):
    """An enum with two values."""

    EAGER = "eager"
    GRAPH = "graph"


class Request(BaseModel):
    """An item of a list of parameters."""

    tokens: int = Field(default=1, ge=1)
    mode: Mode = Mode.EAGER


class Everything(BaseModel):
    """A model with a field of every kind."""

    model_config = ConfigDict(frozen=True)

    flag: bool = False
    word: Literal["a", "b"] = "a"
    mode: Mode = Mode.EAGER
    even: int = Field(default=0, ge=0, lt=7, multiple_of=2)
    maybe: int | None = None
    slots: list[int] = Field(default=[], max_length=3)
    pair: tuple[int, ...] = ()
    work: list[Request] = []
    first: Request = Request()
    fraction: float = Field(default=0.5, ge=0, le=1)
    text: str = Field(default="x", min_length=1, max_length=3)
    table: dict[str, int] = {}
    limit: int = Field(default=9, alias="most", ge=0, le=9)

    @model_validator(mode="after")
    def _few(self) -> Self:
        if self.even > self.limit:
            raise ValueError("even: more than most; expected at most that")
        return self


@register_protocol("t_everything")
class All(Program[Arguments[Everything]]):
    """A program that reads all its parameters."""

    Params = Everything

    @staticmethod
    def ranks(params: Everything) -> int:
        return 2 if params.flag else 1

    async def run(self, rank: Rank, args: Arguments[Everything]) -> None:
        assert isinstance(args.params, Everything)
        await rank.host("world").barrier(site="meet")
        rank.decide("params", repr(args.params), "world")


class Few(BaseModel):
    """A model with one number."""

    ranks: int = 1


@register_protocol("t_none")
class NoRanks(Program[Arguments[Few]]):
    """A program with any number of ranks. Its method `ranks` raises for 13."""

    Params = Few

    @staticmethod
    def ranks(params: Few) -> int:
        if params.ranks == 13:
            raise RuntimeError("not 13")
        return params.ranks

    async def run(self, rank: Rank, args: Arguments[Few]) -> None:
        await rank.host("world").barrier(site="meet")


@register_protocol("t_grouped")
class Grouped(NoRanks):
    """A program that declares its group itself."""

    def groups(self, args: Arguments[Few]) -> list[tuple[str, Domain, list[tuple[int, ...]]]]:
        return [("pair", "host", [tuple(range(args.params.ranks))])]

    async def run(self, rank: Rank, args: Arguments[Few]) -> None:
        await rank.host("pair").barrier(site="meet")
