"""A trace function that does nothing, for host threads whose frames were traced before.

`dpsim.sim.hosts.shared` traces the turns of some threads. If a greenlet then resumes a traced frame while no trace
function is set, CPython 3.12 calls a null pointer, which is a bug. So a trace function is set in each later turn of
such a thread, and when the thread ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def with_null_trace(go_on: Callable[[], Any]) -> Any:
    """Returns what `go_on` returns. A trace function that is set already, such as that of a debugger, stays."""
    if sys.gettrace() is not None:
        return go_on()
    sys.settrace(_ignore)
    try:
        return go_on()
    finally:
        sys.settrace(None)


def _ignore(frame: FrameType, event: str, argument: Any) -> None:
    """Traces no frame."""
