"""Which forms a release has of what engines, the coordinator and front ends do.

    source-003   the form of source page 003, which is release 0.14: a flag every 32 steps, wakes from the front end
    0.24         pauses in two phases; wakes still come from the front end
    0.33         wakes from the engine alone; a sync point in the first step, then every 16

Where a release is younger than its form, nothing in it differs: the coordinator and the front end of 0.24 are 0.14's.
"""

from __future__ import annotations

from typing import NamedTuple

from dpsim.protocol.engine.client import ClientView, ClientView033
from dpsim.protocol.engine.coordination import Coordination, Coordination033
from dpsim.protocol.engine.waves import EngineWaves, Release014, Release024, Release033


class Release(NamedTuple):
    """The three views of a wave."""

    waves: type[EngineWaves]
    coordination: type[Coordination]
    client: type[ClientView]

    @property
    def interval(self) -> int:
        """Steps between two sync points where nothing else is configured."""
        return self.waves.sync_form.INTERVAL


RELEASES: dict[str, Release] = {
    "source-003": Release(Release014, Coordination, ClientView),
    "0.24": Release(Release024, Coordination, ClientView),
    "0.33": Release(Release033, Coordination033, ClientView033),
}

__all__ = ["RELEASES", "Release"]
