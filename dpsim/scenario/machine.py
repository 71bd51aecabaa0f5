"""The machine that a scenario runs on: what is finite there, how long a run may take, and which other programs run
there.

    limits: {stall: 2s, residency: 4}
    ports:
      - {port: 20004}                        # another program listens there, on node 0, from the start
      - {port: 20003, node: 1, late: true}   # at some time, if no other program does then

What only the simulation has, a real backend refuses (`dpsim.scenario.to_world.only_simulated`).
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from dpsim.contract.world import Stranger
from dpsim.scenario.base import MAX_RANKS, Flag, Problem, StrictModel, refuse
from dpsim.scenario.duration import PositiveDuration, format_duration

Room = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
"""How much of something finite there is."""


Many = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
"""A number, or none at all."""


class Limits(StrictModel):
    """When a real backend gives up (the simulation sees a hang at once and needs neither). Also what is finite on a
    device, for the simulation alone: a real backend refuses a scenario that says so.
    """

    stall: PositiveDuration = 5_000_000_000
    """A run is a hang when no rank moved for this time."""
    deadline: PositiveDuration = 600_000_000_000
    """The longest that a run may take."""
    residency: Room | None = None
    """At most this number of device collectives and transfers of a rank run at a time. Left out: any number. Simulation
    only.
    """
    launch_queue: Room | None = None
    """A launch waits until fewer than this number of ops of its stream have not ended. Left out: never. Simulation
    only.
    """
    alloc_synchronises: Flag = False
    """An allocation that needs new memory of the device waits for all work of its rank there. Simulation only."""
    progress: Room | None = None
    """The most ops that a rank or service may issue after the last fault, kill or delay, or after the start. A run that
    exceeds it is overdue. Left out: any number. Simulation only.
    """
    early_timeouts: Many = 0
    """This number of time-outs of a run may pass early, whatever they wait for. Left out: none. For exploring on the
    simulation only."""
    preemptions: Many | None = None
    """Explore all schedules with at most this number of preemptions (docs/explore-long.md). Left out: any number."""
    late_deliveries: Many | None = None
    """Explore all schedules with at most this number of messages that are delivered late. Left out: any number."""
    deaths: Many | None = None
    """Explore all schedules with at most this number of the faults kill and die. Left out: all of them."""
    lazy_communicators: Flag = False
    """A device communicator is made when all its members first use it, and not before; so is one for each pair that
    transfers. Left out: all are there from the start."""

    @model_validator(mode="after")
    def _stall_within_deadline(self) -> Self:
        if self.stall > self.deadline:
            stall, deadline = format_duration(self.stall), format_duration(self.deadline)
            refuse(Problem(("stall",), f"a stall of {stall} would never be seen before the deadline of {deadline}"))
        return self


class TakenPort(StrictModel):
    """Another program that listens on a port."""

    port: Annotated[int, Field(ge=1, le=65535, strict=True)]
    """The port on which the program listens."""
    node: Annotated[int, Field(ge=0, lt=MAX_RANKS, strict=True)] = 0
    """The node it runs on, from 0."""
    late: Flag = False
    """It comes at some time, if the port is free then. Left out: it listens from the start. Simulation only."""

    def stranger(self) -> Stranger:
        """As a backend receives it."""
        return Stranger(self.port, self.node, self.late)
