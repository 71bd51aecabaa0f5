"""Messages for errors in a protocol's own code outside of a run: at its import, in `prepare`, or in `figures`.

Within a run, an exception of a protocol is a finding. Outside of a run it is bad input. The message is one line with
the place in the protocol:

    dpsim: the protocol raised KeyError: 'limit', at waves.py:12
"""

from __future__ import annotations

from types import FrameType


def raised_by_protocol(error: BaseException) -> str | None:
    """Returns the message for an error in the code of a registered protocol or variant, or None. Errors of dpsim's own
    protocols are bugs in dpsim, so they have no such message.
    """
    from dpsim.backend.journal.call_site import frames_of
    from dpsim.contract.registry import modules

    theirs = {module for module in modules() if not module.startswith("dpsim.")}
    if not any(_module(frame) in theirs for frame, _ in frames_of(error)):
        return None
    return f"the protocol raised {type(error).__name__}: {error}{at_own_place(error)}"


def at_own_place(error: BaseException) -> str:
    """Returns ", at waves.py:12": the innermost place outside of dpsim and libraries, or "" if there is none."""
    from dpsim.backend.journal.call_site import frames_of, is_library, place_in
    from dpsim.contract.registry import packages

    known = packages()
    places = [
        place_in(_module(frame), frame.f_code, line)
        for frame, line in frames_of(error)
        if not (_module(frame).startswith("dpsim.") or is_library(frame, known))
    ]
    return f", at {places[-1]}" if places else ""


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "?"))
