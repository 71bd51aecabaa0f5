"""CUDA's driver library, and which CUDA errors concern a capture. Some have an error code; for others torch passes on
only the text.
"""

from __future__ import annotations

import ctypes
from functools import cache

from dpsim.backend.journal.journal import Journal

TEXTS = {
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
"""CUDA's messages for calls that a capture forbids, by code, since some errors of torch contain only the message."""


def capture_code(error: BaseException | None) -> int | None:
    """Returns the code of a CUDA error that concerns a capture; None for all others."""
    code = getattr(error, "error_code", None)
    if code in TEXTS:
        return int(code)
    message = str(error)
    return next((code for code, words in TEXTS.items() if words in message), None)


def refuse_captured(journal: Journal, error: BaseException | None, what: str) -> None:
    """Raises CaptureError if CUDA raised this error because of the present capture."""
    capture, code = journal.shared.capture, capture_code(error)
    if capture is not None and code is not None:
        capture.refuse(code, f"{what}: CUDA says {str(error).splitlines()[0]!r}")


@cache
def driver() -> ctypes.CDLL:
    """Returns CUDA's driver library, whose file name is the same for all CUDA versions."""
    return ctypes.CDLL("libcuda.so.1")
