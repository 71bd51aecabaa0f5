"""Test programs whose only parameter is the number of ranks.

    @register_protocol("t_meets")
    class Meets(SizedProgram):
        async def run(self, rank, args):
            await rank.host("world").barrier(site="meet")

A scenario gives the number as a parameter: `protocol: {name: t_meets, params: {ranks: 3}}`.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from dpsim.contract.program import Program


class Sized(BaseModel):
    """The number of ranks of a world."""

    ranks: int = Field(default=2, ge=1, le=4096)


class SizedProgram(Program[Any]):
    """A program whose parameters have `ranks`."""

    Params = Sized

    @staticmethod
    def ranks(params: Any) -> int:
        return int(params.ranks)


def sized_scenario(name: str, ranks: int = 2, more: str = "") -> str:
    """Returns the text of a scenario. `more` contains further sections."""
    return f"name: {name}\nprotocol: {{name: {name}, params: {{ranks: {ranks}}}}}\n{more}"
