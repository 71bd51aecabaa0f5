"""Units on a cluster of Ray, which schedules them and notices workers and nodes that die. The one file that imports it.

    with RayCluster.at("auto") as cluster:                  # or "ray://HOST:10001"
        explore_all(subjects, elsewhere=cluster.on(sources))

A unit is a task of one CPU. Ray retries none: a unit whose worker or node is lost goes back to its plan and is given
out again. A unit that is lost four times ends its subject without a verdict. This process alone gets results. Where
they are kept on disk, this process writes them, as without a cluster.

The modules of the user's program travel as the working folder of Ray's runtime environment. A Ray that this process
starts listens on the loopback address alone, and ends with it.

Prior art: Ray's tasks and object store (Moritz et al., OSDI 2018).
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from dpsim.campaign.in_order import InOrder
from dpsim.campaign.remote import Source, do_there, sources_of
from dpsim.campaign.units import Unit, UnitResult
from dpsim.contract.words import BadInput
from dpsim.contract.world import BackendUnavailable, Lost

LOSSES = 3
"""So often a unit may be lost and is given out again."""

LOOK_SECONDS = 1.0

OURS = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""What lets a Ray that starts here take the loopback address, as it does on Windows and macOS."""


class NoCluster(BadInput):
    """This address, or this installation, gives no cluster."""


class RayCluster:
    """A cluster. `jobs`: units at a time; None for as many as it has CPUs."""

    def __init__(self, address: str, jobs: int | None) -> None:
        self._address = address
        self._jobs = jobs
        self._ray: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def at(cls, address: str, jobs: int | None = None) -> RayCluster:
        """The cluster at an address. Raises NoCluster for an address that is none, and where Ray is not installed."""
        if address != "auto" and re.fullmatch(r"ray://[^/\s]+", address) is None:
            raise NoCluster(f"{address!r} is no cluster; expected auto or ray://HOST:PORT")
        if address == "auto" and "RAY_ADDRESS" not in os.environ:
            os.environ.update({key: os.environ.get(key, value) for key, value in OURS.items()})
        try:
            import ray  # noqa: F401
        except ImportError:
            raise NoCluster(
                "Ray is not installed here; install it: pip install -e '.[ray]' in a clone of dpsim"
            ) from None
        return cls(address, jobs)

    def on(self, sources: Sequence[Source]) -> RayUnits:
        """The units of subjects. Raises BackendUnavailable where the cluster does not answer."""
        if self._ray is None:
            self._connect(sources)
        width = self._jobs or int(self._ray.cluster_resources().get("CPU", 1))
        return RayUnits(self._ray, [self._ray.put(one) for one in sources], width)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ray is not None:
            self._ray.shutdown()
        if self._folder is not None:
            self._folder.cleanup()

    def _connect(self, sources: Sequence[Source]) -> None:
        import ray

        about = {"logging_level": "error", "log_to_driver": False}
        files = sources_of({module for one in sources for module in one.modules})
        if files:
            self._folder = tempfile.TemporaryDirectory(prefix="dpsim-")
            for name, data in files.items():
                path = Path(self._folder.name) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            about["runtime_env"] = {"working_dir": self._folder.name}
        try:
            if self._address != "auto":
                ray.init(self._address, **about)
            elif "RAY_ADDRESS" in os.environ:
                ray.init("auto", **about)
            else:
                ray.init("local", num_cpus=self._jobs, include_dashboard=False, **about)
        except (ConnectionError, OSError, RuntimeError, TimeoutError) as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise BackendUnavailable(f"the cluster {self._address} does not answer: {said}") from error
        self._ray = ray


class GivenOut(NamedTuple):
    unit: Unit
    subject: InOrder


class RayUnits:
    """An `OtherMachines` (`dpsim.campaign.processes`)."""

    def __init__(self, ray: Any, sources: Sequence[Any], width: int) -> None:
        self._ray = ray
        self._sources = sources
        self._most = 2 * width  # one is at hand when another ends
        self._task = ray.remote(do_there).options(num_cpus=1, max_retries=0)
        self._under_way: dict[Any, GivenOut] = {}

    def results(
        self,
        next_unit: Callable[[], Unit | None],
        plans: Sequence[InOrder],
        end: float | None,
        tick: Callable[[int], None],
    ) -> Iterator[UnitResult]:
        """Give out units until there are none. `tick` is called when one ends."""
        try:
            while True:
                while len(self._under_way) < self._most and (unit := next_unit()) is not None:
                    left = None if end is None else max(end - time.monotonic(), 0.0)
                    ref = self._task.remote(self._sources[unit.subject], unit, left)
                    self._under_way[ref] = GivenOut(unit, plans[unit.subject])
                if not self._under_way or all(one.plan.done for one in plans):
                    return
                ready, _ = self._ray.wait([*self._under_way], num_returns=1, timeout=LOOK_SECONDS)
                for ref in ready:
                    result = self._answer(ref)
                    if result is not None:
                        yield result
                tick(0)
        finally:
            for ref in self._under_way:
                with suppress(Exception):
                    self._ray.cancel(ref, force=True)
            self._under_way.clear()

    def _answer(self, ref: Any) -> UnitResult | None:
        """What became of a unit. Raises what the unit raised."""
        unit, plan = self._under_way.pop(ref)
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            raise BackendUnavailable(f"a node cannot take the program's modules: {error}") from error
        except self._ray.exceptions.RayTaskError as error:  # a unit catches what it raises: it could not be loaded
            said = str(error).strip().splitlines()[-1]
            message = "a node cannot do a unit; the same version of dpsim has to be installed on each"
            raise BackendUnavailable(f"{message}: {said}") from error
        except self._ray.exceptions.RayError as error:
            plan.lost(unit, f"with {type(error).__name__}", LOSSES)
            return None
        if isinstance(answer, Lost):
            plan.give_up(str(answer))
        elif isinstance(answer, Exception):
            raise answer
        elif isinstance(answer, UnitResult):
            return answer
        return None
