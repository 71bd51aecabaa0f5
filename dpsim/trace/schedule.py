"""The schedule of an explored run, as a section of its trace: each op that was picked, and each value that was drawn.

It is the only input of an untimed run, and `dpsim.explore.strategies.replay` repeats the run with it. Its digest is
separate, because two schedules may differ although the bodies of their traces are equal.

    >>> schedule = Schedule("dpor", ("rank 2 delivers wake[0]", "rank 0 poll[0]"))
    >>> line = json.dumps({"section": "schedule", "schedule": schedule.content()}).encode()
    >>> Schedule.parse(line) == schedule
    True
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from dpsim.contract.events import ScheduleEvent
from dpsim.trace.strict_json import loads_once


def present(step: str) -> str:
    """Returns a step of a stored schedule with the present verb, so that the replay finds the op.

    >>> present("rank 0/u1 comes to handoff[0]"), present("rank 0 poll[0]")
    ('rank 0/u1 reaches handoff[0]', 'rank 0 poll[0]')
    >>> present("rank 0 gives who comes to dinner #4")
    'rank 0 gives who comes to dinner #4'
    """
    event = ScheduleEvent.read(step)
    return step if event is None else str(event)


class Schedule(NamedTuple):
    """A schedule. `strategy`: the name of the strategy that found it. `steps`: labels of picks and draws, in order."""

    strategy: str
    steps: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 of the steps as JSON, as 64 hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.steps).encode()).hexdigest()

    def content(self) -> dict[str, Any]:
        """Returns the schedule as plain data for a line of the trace."""
        return {"strategy": self.strategy, "digest": self.digest, "steps": list(self.steps)}

    @staticmethod
    def parse(line: bytes) -> Schedule:
        """Returns the schedule of a line, with present verbs. Raises ValueError with what was expected."""
        try:
            row = loads_once(line)
            content = row["schedule"]
            strategy, digest, steps = content["strategy"], content["digest"], content["steps"]
            fits = set(row) == {"section", "schedule"} and len(content) == 3 and isinstance(strategy, str)
        except (ValueError, RecursionError, KeyError, TypeError):
            fits = False
        if not fits or not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
            raise ValueError('the section "schedule" has a form that dpsim does not write, or was cut off')
        schedule = Schedule(strategy, tuple(steps))
        if schedule.digest != digest:
            raise ValueError(
                f"the schedule was changed after it was written: its SHA-256 is {schedule.digest[:16]}..., but it says "
                f"{str(digest)[:16]}..."
            )
        return schedule._replace(steps=tuple(map(present, schedule.steps)))
