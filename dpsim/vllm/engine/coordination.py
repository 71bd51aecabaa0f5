"""The coordinator's rules: which engines it wakes, and what it publishes to the front ends (specification 2.2 and 2.5).

An engine or a front end reports that a wave begins or is over; the coordinator wakes all engines and publishes the
state. Requests do not pass through the coordinator.

    >>> coordinator = Coordination(engines=2)
    >>> for one in coordinator.start_wave(engine=1, wave=0):
    ...     print(one.to, one.message)
    back StartDpWave(wave=0, exclude=1)
    front Published(counts=None, wave=0, running=True)
    >>> coordinator.start_wave(engine=0, wave=0)  # it knows already
    []
    >>> coordinator.wave_complete(engine=0, wave=0)
    [Sent(to='front', message=Published(counts=None, wave=1, running=False))]

The coordinator publishes the counts when no other message has arrived for a while. When the first counts of a later
step arrive, the coordinator saves the complete counts of the step before, and publishes those first.

If a group grows, only 0.14 sets its state to not running. Since 0.28, an engine also publishes the usage of its KV
cache. The first request of a front end starts the group up to 0.28. In 0.31 it wakes the engines without a change of
the state, and 0.33 ignores it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

Load = tuple[Any, ...]
"""The waiting and the running requests of an engine, ints; since 0.28 also the usage of its KV cache, from 0 to 1."""

Counts = tuple[Load, ...]
"""The load of each engine, in their order."""


class StartDpWave(NamedTuple):
    """Message to all engines: join a wave. `exclude`: the engine that takes part already."""

    wave: int
    exclude: int | None


class Published(NamedTuple):
    """Message to all front ends: the state of the group. `counts`: None if only the wave or the state changed."""

    counts: Counts | None
    wave: int
    running: bool


class Sent(NamedTuple):
    """A message, and to whom the coordinator sends it: "back" for all engines, "front" for all front ends."""

    to: Literal["back", "front"]
    message: StartDpWave | Published


class FirstRequest(NamedTuple):
    """From a front end: it sent a request to `exclude`, and in its view the engines are idle in `wave`."""

    exclude: int | None
    wave: int


class StartWave(NamedTuple):
    """Message from an engine: it runs in this wave, and the others have to join."""

    engine: int
    wave: int


class WaveComplete(NamedTuple):
    """Message from an engine: this wave is over."""

    engine: int
    wave: int


class EngineCounts(NamedTuple):
    """Message from an engine: the counts of its requests in a step of a wave. `usage`: of its KV cache, since 0.28."""

    engine: int
    step: int
    wave: int
    waiting: int
    running: int
    usage: float = 0.0


FromEngine = StartWave | WaveComplete | EngineCounts
Changed = list[StartDpWave] | None
"""The wakes that follow from a message. None: the message does not change the state."""


class Coordination:
    """The state of the group. Without `enable_wave_coordination`, engines do not step in lockstep, and the coordinator
    only publishes counts.
    """

    idle: ClassVar[Load] = (0, 0)
    """The load of an engine that has not sent any counts yet."""

    def __init__(self, engines: int, enable_wave_coordination: bool = True) -> None:
        self.enable_wave_coordination = enable_wave_coordination
        self.current_wave = 0
        self.engines_running = False
        self._counts: list[Load] = [self.idle] * engines
        self._counts_changed = False
        self._counts_of_step_before: Counts | None = None
        self._last_counted = (-1, -1)  # wave and step of the latest counts

    # ---- one message at a time

    def first_request(self, exclude: int | None, wave: int) -> list[Sent]:
        return self.poll(FirstRequest(exclude, wave), None)

    def start_wave(self, engine: int, wave: int) -> list[Sent]:
        return self.poll(None, StartWave(engine, wave))

    def wave_complete(self, engine: int, wave: int) -> list[Sent]:
        return self.poll(None, WaveComplete(engine, wave))

    def counts(self, engine: int, step: int, wave: int, waiting: int, running: int, usage: float = 0.0) -> list[Sent]:
        return self.poll(None, EngineCounts(engine, step, wave, waiting, running, usage))

    def poll(self, front: FirstRequest | None, engine: FromEngine | None) -> list[Sent]:
        """Process the messages of one poll of the sockets: at most one from each side, and the front end's first.

        Returns the wakes of each message, and at most one new state for the front ends, at the end.
        """
        before = self.current_wave, self.engines_running
        wakes = [self._first_request(front) if front else None, self._from_engine(engine) if engine else None]
        sent = [Sent("back", wake) for woken in wakes for wake in woken or ()]
        return [*sent, self._state(None)] if (self.current_wave, self.engines_running) != before else sent

    def scale(self, engines: int) -> list[Sent]:
        """Set the number of engines. An engine's message of the same poll waits for the next."""
        more = engines - len(self._counts)
        if more > 0:
            self._counts += [self.idle] * more
            self._grown()
        else:
            del self._counts[engines:]
        return []

    @property
    def unpublished(self) -> bool:
        """Whether the coordinator has counts that the front ends have not received."""
        return self._counts_changed or self._counts_of_step_before is not None

    def published(self) -> list[Sent]:
        """Publish counts to the front ends. The caller calls this when no message has arrived for a while."""
        counts, self._counts_of_step_before = self._counts_of_step_before, None
        if counts is None:
            counts, self._counts_changed = tuple(self._counts), False
        return [self._state(counts)]

    def _state(self, counts: Counts | None) -> Sent:
        return Sent("front", Published(counts, self.current_wave, self.engines_running))

    def _grown(self) -> None:
        """Set the state to not running: a new engine is in no wave, so the next request has to wake all."""
        self.engines_running = False

    # ---- the effect of a message

    def _first_request(self, event: FirstRequest) -> Changed:
        """If the front end's wave is over, its request may be on an engine that is idle, so wake all engines."""
        if not self.enable_wave_coordination or self.engines_running:
            return None
        self.engines_running = True
        return [StartDpWave(self.current_wave, None if event.wave < self.current_wave else event.exclude)]

    def _from_engine(self, event: FromEngine) -> Changed:
        if isinstance(event, EngineCounts):
            self._count(event)
            return None
        if not self.enable_wave_coordination:
            return None
        return self._start_wave(event) if isinstance(event, StartWave) else self._wave_complete(event)

    def _start_wave(self, event: StartWave) -> Changed:
        if event.wave < self.current_wave or (event.wave == self.current_wave and self.engines_running):
            return None
        self.current_wave, self.engines_running = event.wave, True
        return [StartDpWave(event.wave, event.engine)]

    def _wave_complete(self, event: WaveComplete) -> Changed:
        if event.wave < self.current_wave:
            return None
        self.current_wave, self.engines_running = event.wave + 1, False
        return []

    def _count(self, event: EngineCounts) -> None:
        if (event.wave, event.step) > self._last_counted:
            self._later_step()
            self._last_counted = (event.wave, event.step)
        self._counts[event.engine] = (event.waiting, event.running)
        self._counts_changed = True

    def _later_step(self) -> None:
        if self._counts_changed:
            self._counts_of_step_before = tuple(self._counts)


class Coordination024(Coordination):
    """Release 0.24: a group that grows keeps its state."""

    def _grown(self) -> None:
        pass


class Coordination028(Coordination024):
    """Release 0.28: counts include the usage of the KV cache.

    Without lockstep, steps of engines are unrelated, so it saves no counts of a step. It ignores counts of an engine
    that the group lacks, because the group may have shrunk.
    """

    idle: ClassVar[Load] = (0, 0, 0.0)

    def _count(self, event: EngineCounts) -> None:
        if event.engine < len(self._counts):
            super()._count(event)
            self._counts[event.engine] = (event.waiting, event.running, event.usage)

    def _later_step(self) -> None:
        if self.enable_wave_coordination:
            super()._later_step()


class Coordination031(Coordination028):
    """Release 0.31: a first request wakes engines without the state running: a paused engine drops the wake."""

    def _first_request(self, event: FirstRequest) -> Changed:
        running = self.engines_running
        woken = super()._first_request(event)
        self.engines_running = running
        return woken


class Coordination033(Coordination028):
    """Release 0.33: only engines report that a wave begins."""

    def _first_request(self, event: FirstRequest) -> Changed:
        return None
