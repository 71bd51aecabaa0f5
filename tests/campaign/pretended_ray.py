"""A pretended Ray: the part of Ray's interface that dpsim uses, within this process. A test can make it lose tasks."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest

from dpsim.campaign.ray_cluster import RayCluster
from dpsim.campaign.ray_units import RayUnits, each
from dpsim.campaign.remote import Source


class Errors:
    """The exceptions of Ray that dpsim handles."""

    class RayError(Exception):
        pass

    class RuntimeEnvSetupError(RayError):
        pass

    class RayTaskError(RayError):
        pass


class Ref:
    def __init__(self, answer: Any) -> None:
        self.answer = answer


class PretendedRay:
    """The part of Ray's interface that dpsim uses, within this process. `loses`: the numbers of the tasks that it
    loses.
    """

    exceptions = Errors

    def __init__(self, loses: frozenset[int] = frozenset(), how: type[Exception] = Errors.RayError) -> None:
        self.how = how
        self.loses = loses
        self.tasks = 0
        self.cancelled = 0

    def remote(self, function: Any) -> Any:
        ray = self

        class Task:
            def options(self, **_: Any) -> Any:
                return self

            def remote(self, *arguments: Any) -> Ref:
                ray.tasks += 1
                return Ref(None if ray.tasks in ray.loses else travelled(function(*travelled(arguments))))

        return Task()

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        return refs[-num_returns:], refs[:-num_returns]  # the last task finishes first

    def get(self, ref: Ref) -> Any:
        if ref.answer is None:
            raise self.how("the node is gone")
        return ref.answer

    def cancel(self, ref: Ref, force: bool) -> None:
        self.cancelled += 1


def travelled(value: Any) -> Any:
    """Returns the value as it arrives on another machine."""
    return pickle.loads(pickle.dumps(value))


class Pretended(NamedTuple):
    """Takes the place of a `RayCluster`."""

    ray: PretendedRay
    width: int = 2

    def on(self, sources: list[Source]) -> RayUnits:
        return RayUnits(self.ray, sources, self.width)

    def each(self, function: Any, arguments: Any, modules: Any, end: float | None) -> Iterator[tuple[int, Any]]:
        return each(self.ray, function, arguments, self.width, end)


def on(monkeypatch: pytest.MonkeyPatch, loses: frozenset[int] = frozenset()) -> PretendedRay:
    """Makes each `--cluster` use the pretended Ray."""
    ray = PretendedRay(loses)
    monkeypatch.setattr(RayCluster, "at", lambda *_: nullcontext(Pretended(ray)))
    return ray
