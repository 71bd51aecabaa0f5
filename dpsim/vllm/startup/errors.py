"""The errors of a start. Each message names who waited or failed, what was expected, and what the user can do:

    ConfigMismatch   engines were started with different settings
    PortTaken        another program listens where a group should meet
    NobodyCame       a time-out passed: a participant is late, missing, or somewhere else
    NoMemory         the KV cache does not fit beside the communicators
    OneFailed        another participant failed, and this one repeats its error
    Stopped          its parent gave up, so it ends as well, without an error

    >>> print(NobodyCame("engine.0", "engine.1", "in the engine DP group", 100_000_000_000))
    engine.0 waited 100 s for engine.1 in the engine DP group

Sources: specification 8.3, 8.4 and 9.3 (invariants I-ST-9 and I-ST-10).
"""

from __future__ import annotations


class StartupError(Exception):
    """The start has failed."""


class ConfigMismatch(StartupError):
    """Engines were started with different settings."""


class PortTaken(StartupError):
    """Another program listens at the port."""


class NobodyCame(StartupError):
    """A time-out passed without the expected participant. `cure`: the hint for the user."""

    def __init__(self, waits: str, missing: str, where: str, ns: int, cure: str = "") -> None:
        self.args = waits, missing, where, ns, cure

    def __str__(self) -> str:
        waits, missing, where, ns, cure = self.args
        return f"{waits} waited {ns / 1e9:.0f} s for {missing} {where}" + (f"; {cure}" if cure else "")


class NoMemory(StartupError):
    """A device has less memory than the start needs."""


LATE = "it is late, has died, or was never started"
"""The hint for a participant that does not arrive."""

LEFT = "Left"
"""This text replaces the name of an error if a participant has left without one."""


class OneFailed(StartupError):
    """Another participant failed. `of`: the name of its error."""

    def __init__(self, who: str, of: str, text: str) -> None:
        super().__init__(f"{who} failed: {of}: {text}")
        self.of = of


class Stopped(Exception):
    """The parent has left, so this participant ends."""


def root_of(errors: list[StartupError]) -> StartupError:
    """A failure rather than a time-out, and the error of another participant rather than an own one."""

    def late(error: StartupError) -> tuple[bool, bool]:
        of = error.of if isinstance(error, OneFailed) else type(error).__name__
        return of in (NobodyCame.__name__, LEFT), not isinstance(error, OneFailed)

    return min(errors, key=late)
