"""A protocol for tests of commands: in each step all ranks agree on a number on their hosts, and sum on their devices.

    site            op
    dp.agree        all_reduce on world_cpu, which a host awaits; omitted in a world of one rank
    experts.buffer  allocation
    attention       kernel of 100 us
    experts         all_reduce on world
    experts.read    copy to the host

Each step calls one collective on each communicator, so the number of such a call is the number of its step. A run has
only one possible order. A run of one step takes more than 100 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from dpsim.contract.interface import Rank
from dpsim.contract.ops import DECISION_VALUE, KIND, RawRecord
from dpsim.contract.program import Arguments
from dpsim.contract.registry import register_protocol
from tests.programs import set_to
from tests.sized import Sized, SizedProgram

HEALTHY = """
name: three
protocol:
  name: t_agrees
  params:
    ranks: 3
    steps: 6
"""
SKIP = "faults: [{kind: skip, rank: 1, at: {site: dp.agree, ordinal: 2}}]\n"
EXPECTED = "expect: {class: 'HANG:COLLECTIVE:MISSING_RANK', culprit: {rank: 1, step: 2}}\n"


class Steps(Sized):
    """The number of ranks and of steps."""

    steps: int = Field(default=6, ge=1, le=1000)


@register_protocol("t_agrees")
class Agrees(SizedProgram):
    """All ranks agree in each step."""

    Params = Steps
    probes = ("agreed", "differed")

    async def run(self, rank: Rank, prepared: Arguments[Steps]) -> None:
        main = rank.stream("main")
        for rank.step in range(prepared.params.steps):
            agreed = rank.step + 1
            if prepared.params.ranks > 1:
                table = np.zeros(prepared.params.ranks, np.int32)
                table[rank.rank] = agreed
                table = await rank.host("world").all_reduce(table, site="dp.agree")
                rank.probe("agreed" if len({*table.tolist()}) == 1 else "differed")
                rank.decide("plan", int(table.max()), "world")
            hidden = main.alloc(agreed, "int32", "experts.buffer")
            main.launch("attention", set_to, writes=[hidden], args=(1,), cost=100_000)
            rank.device("world").all_reduce(hidden, main, site="experts")
            await hidden.read("experts.read")
            hidden.free()

    def figures(self, prepared: Arguments[Steps], journals: Sequence[Sequence[RawRecord]]) -> dict[str, Any]:
        plans = [raw[DECISION_VALUE] for raw in journals[0] if raw[KIND] == "decision"]
        return {"largest plan": max(plans, default=0), "plans": _parities(plans)} if plans else {}


def _parities(plans: Sequence[int]) -> dict[str, int]:
    return {"even": sum(plan % 2 == 0 for plan in plans), "odd": sum(plan % 2 for plan in plans)}
