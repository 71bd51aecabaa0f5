"""`check_backend`: runs the cases of `dpsim.testing.cases` on a backend, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.contract.world import Backend, BackendUnavailable
from dpsim.runner import find_backend
from dpsim.testing.bench import Bench
from dpsim.testing.fault_cases import CONFORMANCE


def check_backend(backend: str | Backend, *, size: int = 2, only: str | Iterable[str] | None = None) -> None:
    """Runs the cases, or those named in `only`, with `size` ranks. `backend`: an object, or the name of an installed
    backend.

    Raises AssertionError at the first broken rule, and BackendUnavailable if the backend cannot run `size` ranks here.
    Raises ValueError for fewer than two ranks, and KeyError for an unknown case. The caller closes the backend.
    """
    if size < 2:
        raise ValueError(f"size is {size}, but the cases need at least 2 ranks")
    if isinstance(backend, str):
        backend = find_backend(backend)
    reason = backend.unavailable(size)
    if reason is not None:
        raise BackendUnavailable(reason)
    for name in CONFORMANCE if only is None else [only] if isinstance(only, str) else only:
        rule = " ".join((CONFORMANCE[name].__doc__ or "").split())
        CONFORMANCE[name](Bench(backend, size, name, rule))
