"""Replaces the stores of torch: a rank's calls on a store go to a store in the simulation.

    TCPStore("localhost", 29500, 4, rank == 0)      # rank 0 listens on the port, the others join

Without its own store, `init_process_group` uses the launcher's, which lives longer than every rank. torch stores bytes.
dpsim keeps them as text with one character a byte.

If the program gives a time-out, a wait or get can raise, but only where nothing else can happen in the simulation. The
long default time-outs of torch never pass here, so such a wait is a hang.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from dpsim.torch.child.frames import site
from dpsim.torch.child.pipe import ask, tell
from dpsim.torch.child.uncovered import NotCovered

DEFAULT = datetime.timedelta(seconds=300)
"""The time-out of a store for which the program sets none. It never passes."""


class RankStore(dist.Store):  # type: ignore[misc]  # torch is Any
    """A store at a port. `prefix`: what this store puts before each key."""

    def __init__(self, port: int, prefix: str = "") -> None:
        super().__init__()
        self.place, self.prefix = port, prefix
        self._timeout = DEFAULT

    def _asked(self, how: str, key: str, value: Any = None, more: Any = None) -> Any:
        answer, _ = ask(["store", self.place, how, self.prefix + key, value, more, site(f"store.{how}")])
        if answer == ["left"] or (answer is None and not (how == "get" and value is not None)):
            raise dist.DistNetworkError(
                f"store.{how} of key {key}: the process that listened at port {self.place} left"
            )
        return answer

    def set(self, key: str, value: Any) -> None:
        tell(["set", self.place, self.prefix + key, _text(value), site("store.set")])

    def get(self, key: str) -> bytes:
        ns = None if self._timeout is DEFAULT else _ns(self._timeout)
        value = self._asked("get", key, ns)
        if value is None:
            raise dist.DistStoreError(f"wait timeout after {_ns(self._timeout) // 1_000_000}ms, keys: /{key}")
        return _bytes(value)

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        for key in keys:
            if timeout is None and self._timeout is not DEFAULT:
                timeout = self._timeout
            ns = None if timeout is None else _ns(timeout)
            if self._asked("get", key, ns) is None:
                raise dist.DistStoreError(f"wait timeout after {timeout}, keys: {', '.join(keys)}")

    def check(self, keys: Sequence[str]) -> bool:
        return all(self._asked("get", key, 0) is not None for key in keys)

    def add(self, key: str, amount: int) -> int:
        return int(self._asked("add", key, amount))

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        return _bytes(self._asked("compare_set", key, _text(expected), _text(desired)))

    def delete_key(self, key: str) -> bool:
        return bool(self._asked("delete", key))

    def append(self, key: str, value: Any) -> None:
        raise NotCovered("Store.append")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        return False  # so torch's C++ wrappers do not call the extended methods, which a Python class cannot override

    def num_keys(self) -> int:
        raise NotCovered("Store.num_keys")

    def list_keys(self) -> list[str]:
        raise NotCovered("Store.list_keys")

    def set_timeout(self, timeout: Any) -> None:
        self._timeout = timeout

    @property
    def timeout(self) -> Any:
        return self._timeout

    def clone(self) -> RankStore:
        return self


class TCPStore(RankStore):
    """A store that one rank opens at a port, and that others join."""

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Any = None,
        wait_for_workers: bool = True,
        *args: Any,
        **more: Any,
    ) -> None:
        if is_master:
            found, _ = ask(["open", int(port), site("TCPStore")])
            if found is None:
                raise dist.DistNetworkError(f"port {port}: EADDRINUSE, address already in use")
        else:
            found, _ = ask(["join", int(port), -1 if timeout is None else _ns(timeout), site("TCPStore")])
            if found is None:
                raise dist.DistNetworkError(
                    f"The client socket has timed out after {_ns(timeout) // 1_000_000}ms while trying to connect to "
                    f"({host_name}, {port})."
                )
        super().__init__(int(found))
        if timeout is not None:
            self._timeout = timeout
        self.host, self.port, self.master = host_name, int(found), is_master
        if wait_for_workers and world_size and world_size > 0:
            arrived = self.add("init/", 1)
            if arrived == world_size:
                self.set("init/all", "1")
            if is_master:
                self.get("init/all")

    def __del__(self) -> None:
        if getattr(self, "master", False):
            tell(["close", self.place, "TCPStore.close"])


class FileStore(RankStore):
    """A store that processes share by the name of a file. Here its keys are in the launcher's store."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__(agent().place, f"{file_name}/")
        self.path = file_name


class PrefixStore(dist.PrefixStore):  # type: ignore[misc]
    """Keeps a reference to the Python store, because the C++ object alone would lose it to the collector."""

    def __init__(self, prefix: str, store: Any) -> None:
        super().__init__(prefix, store)
        self.kept, self.before = store, prefix

    def delete_key(self, key: str) -> bool:
        return bool(self.kept.delete_key(f"{self.before}/{key}"))


_agents: list[RankStore] = []


def agent() -> RankStore:
    """Returns the store of the launcher."""
    if not _agents:
        _agents.append(RankStore(int(os.environ["MASTER_PORT"])))
    return _agents[0]


def _ns(timeout: Any) -> int:
    return int(timeout.total_seconds() * 1e9)


def _text(value: Any) -> str:
    return (value.encode() if isinstance(value, str) else bytes(value)).decode("latin-1")


def _bytes(value: Any) -> bytes:
    return str(value).encode("latin-1")
