"""The sections `limits` and `ports`: the finite resources of the machine, time-outs of a run, and other programs there.

    limits: {stall: 2s, residency: 4}
    ports:
      - {port: 20004}                        # another program listens there, on node 0, from the start
      - {port: 20003, node: 1, late: true}   # it begins to listen at any time, if the port is free

A real backend refuses the keys that only the simulation has (`dpsim.scenario.to_world.only_simulated`).
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from dpsim.contract.world import Stranger
from dpsim.scenario.base import MAX_RANKS, Flag, Problem, StrictModel, refuse
from dpsim.scenario.duration import PositiveDuration, format_duration

Room = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
"""How much of a finite resource there is."""


Many = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
"""A number from 0."""


class Limits(StrictModel):
    """When a real backend ends a run, what is finite on a simulated device, and what an exploration tries. The
    simulation finds a hang at once, so it needs no `stall`. A real backend refuses the keys that are for the simulation
    only.
    """

    stall: PositiveDuration = 5_000_000_000
    """A run is a hang if no rank progressed for this time."""
    deadline: PositiveDuration = 600_000_000_000
    """The longest time that a run may take."""
    residency: Room | None = None
    """At most this number of device collectives and transfers of a rank run at the same time. If left out: any number.
    Simulation only.
    """
    launch_queue: Room | None = None
    """A launch waits until its stream has fewer than this number of unfinished ops. If left out: it never waits.
    Simulation only.
    """
    alloc_synchronises: Flag = False
    """An allocation that needs new device memory waits for all work of its rank on the device. Simulation only."""
    progress: Room | None = None
    """The most ops that a rank or service may issue after the last fault, kill or delay, or after the start. A run that
    exceeds it is overdue. If left out: any number. Simulation only.
    """
    early_timeouts: Many = 0
    """This number of time-outs of a run may pass early, whatever they wait for. If left out: none. Only explorations on
    the simulation use it.
    """
    preemptions: Many | None = None
    """Explore all schedules with at most this number of preemptions (docs/explore-long.md). If left out: any number."""
    late_deliveries: Many | None = None
    """Explore all schedules with at most this number of late messages. If left out: any number."""
    deaths: Many | None = None
    """Explore all schedules with at most this number of the faults kill and die. If left out: all of them."""
    lazy_communicators: Flag = False
    """A device communicator is created when all its members first use it, and one for each pair of ranks that
    transfers. If left out: all exist from the start.
    """

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
    """The node on which it runs, from 0."""
    late: Flag = False
    """The program begins to listen at any time, if the port is free then. If left out: from the start. Simulation
    only.
    """

    def stranger(self) -> Stranger:
        """Returns the program for a backend."""
        return Stranger(self.port, self.node, self.late)
