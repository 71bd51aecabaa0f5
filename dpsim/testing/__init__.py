"""For tests: `holds` says whether a scenario holds in every schedule (`dpsim.testing.exploring`), and `check_backend`
whether a backend keeps the contract of `dpsim.interface`. The latter judges sim, gloo and nccl, and backends of others.

    from dpsim.testing import CONFORMANCE, check_backend

    @pytest.mark.parametrize("case", CONFORMANCE)
    def test_mine(case):
        check_backend(MyBackend(), only=case)

Each case runs small programs on the backend and on the simulation and compares: the same decisions, the same ops in the
same order on every communicator and every stream, the same values learned, the same ends; and where something was
planted, the right finding with the right culprit, and a backend that runs the next world. An `AssertionError` names the
backend, the case with its rule, the rank, what was expected and what came. Times are not compared.

Not covered: that freed memory is reused, which the backend gloo does not claim; only that it is not reused too early.
Nor the order of messages from two senders, nor what a mismatched collective leaves in memory, which are undefined.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.testing.bench import Bench
from dpsim.testing.cases import CONFORMANCE
from dpsim.testing.exploring import holds
from dpsim.world import Backend, BackendUnavailable


def check_backend(backend: str | Backend, *, size: int = 2, only: str | Iterable[str] | None = None) -> None:
    """Run the cases, or those named in `only`, with `size` ranks, on a backend or on the installed one of that name.

    Raises AssertionError at the first rule that is broken, BackendUnavailable if the backend cannot run `size` ranks
    here, ValueError for fewer than two ranks, KeyError for an unknown case. Closing the backend is left to the caller.
    """
    if size < 2:
        raise ValueError(f"size is {size}, but what ranks do to one another takes at least 2")
    if isinstance(backend, str):
        from dpsim.runner import find_backend  # not above: a worker process that imports the programs does not need it

        backend = find_backend(backend)
    reason = backend.unavailable(size)
    if reason is not None:
        raise BackendUnavailable(reason)
    for name in CONFORMANCE if only is None else [only] if isinstance(only, str) else only:
        rule = " ".join((CONFORMANCE[name].__doc__ or "").split())
        CONFORMANCE[name](Bench(backend, size, name, rule))


__all__ = ["CONFORMANCE", "check_backend", "holds"]
