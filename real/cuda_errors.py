"""CUDA's driver, and which errors are about a capture: each has its code, or the words that torch gives alone."""

from __future__ import annotations

import ctypes
from functools import cache

from dpsim.backend.journal.journal import Journal

SAID = {
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    902: "merge of separate capture sequences",
    903: "capture was not ended in the same stream",
    904: "capturing stream has unjoined work",
    905: "dependency created on uncaptured work in another stream",
    906: "make the legacy stream depend on a capturing blocking stream",
    907: "event last recorded in a capturing stream",
    908: "attempt to terminate a thread-local capture sequence from another thread",
}
"""What CUDA says where a capture forbids a call, by its code: some errors of torch have the words alone."""


def capture_code(error: BaseException | None) -> int | None:
    """The code of an error of CUDA that is about a capture; None for all others."""
    code = getattr(error, "error_code", None)
    if code in SAID:
        return int(code)
    said = str(error)
    return next((code for code, words in SAID.items() if words in said), None)


def refuse_captured(journal: Journal, error: BaseException | None, what: str) -> None:
    """Raise CaptureError for an error that CUDA gives because of the capture that is under way, if it is such a one."""
    capture, code = journal.shared.capture, capture_code(error)
    if capture is not None and code is not None:
        capture.refuse(code, f"{what}: CUDA says {str(error).splitlines()[0]!r}")


@cache
def driver() -> ctypes.CDLL:
    """CUDA's driver, which has one name whatever the version of CUDA."""
    return ctypes.CDLL("libcuda.so.1")
