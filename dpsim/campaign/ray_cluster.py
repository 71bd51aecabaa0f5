"""Ray cluster: explores on a Ray cluster, which schedules tasks and detects dead workers and nodes.

    with RayCluster.at("auto") as cluster:                  # or "ray://HOST:10001"
        explore_all(subjects, elsewhere=cluster.on(sources))

If a worker or node dies, the units of its task are repeated, and after four times a program gets no verdict. Only this
process collects results. Ray copies the user's modules as the working folder of its runtime environment. A Ray that
this process starts listens on the loopback address only, and ends with it.

Only this file imports `ray`. `RayUnits` receives the module, so a test can pass an object that imitates it.

Prior art: Ray's tasks and object store (Moritz et al., OSDI 2018).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpsim.campaign.ray_units import RayUnits, each
from dpsim.campaign.remote import Source, sources_of
from dpsim.contract.words import BadInput
from dpsim.contract.world import BackendUnavailable

INSTALL = "pip install -e '.[ray]' in a clone of dpsim"

OURS = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Settings with which a local Ray listens on the loopback address, as it does on Windows and macOS."""


class NoCluster(BadInput):
    """This address, or this installation, gives no cluster."""


class RayCluster:
    """A cluster. `jobs`: the number of units at a time; None for the number of its CPUs."""

    def __init__(self, address: str, jobs: int | None) -> None:
        self._address = address
        self._jobs = jobs
        self._ray: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def at(cls, address: str, jobs: int | None = None) -> RayCluster:
        """Returns the cluster at an address. Raises NoCluster for an invalid address, or if Ray is not installed."""
        if address != "auto" and re.fullmatch(r"ray://[^/\s]+", address) is None:
            raise NoCluster(f"{address!r} is no cluster; expected auto or ray://HOST:PORT")
        if address == "auto" and "RAY_ADDRESS" not in os.environ:
            os.environ.update({key: os.environ.get(key, value) for key, value in OURS.items()})
        try:
            import ray  # noqa: F401
        except ImportError:
            raise NoCluster(f"Ray is not installed here; install it: {INSTALL}") from None
        if address != "auto" and find_spec("grpc") is None:
            raise NoCluster(f"{address} needs the client of Ray; install it: {INSTALL}")
        return cls(address, jobs)

    def on(self, sources: Sequence[Source]) -> RayUnits:
        """Returns what executes the units of programs. Raises BackendUnavailable if the cluster does not answer."""
        self._connect({module for one in sources for module in one.modules})
        return RayUnits(self._ray, [self._ray.put(one) for one in sources], self.width)

    def each(
        self, function: Callable[..., Any], arguments: Sequence[Any], modules: Iterable[str], end: float | None
    ) -> Iterator[tuple[int, Any]]:
        """Executes a task for each argument (`dpsim.campaign.ray_units.each`). `modules`: those of user programs."""
        self._connect(modules)
        return each(self._ray, function, arguments, self.width, end)

    @property
    def width(self) -> int:
        """The number of tasks at a time; 1 before the first connection."""
        if self._jobs is not None or self._ray is None:
            return self._jobs or 1
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ray is not None:
            self._ray.shutdown()
        if self._folder is not None:
            self._folder.cleanup()

    def _connect(self, modules: Iterable[str]) -> None:
        """Connects once, and sends the modules of the first programs. Later programs need the same modules."""
        if self._ray is not None:
            return
        import ray

        about = {"logging_level": "error", "log_to_driver": False}
        files = sources_of(modules)
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
            lines = str(error).splitlines() or [type(error).__name__]
            message = lines[0] if not lines[0].endswith(":") else f"{lines[0]} {lines[-1]}"
            raise BackendUnavailable(f"the cluster {self._address} does not answer: {message}") from error
        self._ray = ray
