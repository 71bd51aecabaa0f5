"""Waves as the coordinator sees them: which engines it wakes, and what it sends to the front ends (2.2, 2.5).

The coordinator relays. An engine or a front end reports that a wave begins or is over. Then the coordinator wakes
all engines and sends the new state to all front ends. Requests never pass here.

    >>> coordinator = Coordination(engines=2)
    >>> for one in coordinator.start_wave(engine=1, wave=0):
    ...     print(one.to, one.message)
    back StartDpWave(wave=0, exclude=1)
    front Published(counts=None, wave=0, running=True)
    >>> coordinator.start_wave(engine=0, wave=0)  # it knows already
    []
    >>> coordinator.wave_complete(engine=0, wave=0)
    [Sent(to='front', message=Published(counts=None, wave=1, running=False))]

Engines also send their numbers of requests, step by step. The coordinator publishes these counts when no other message
has arrived for a while. A step's counts come from several engines. When the first counts of a later step arrive, the
coordinator keeps those of all engines before it, and publishes them first.

Releases differ. Only in 0.14, a group of engines that grows stops running. Since 0.28 an engine publishes three
numbers: its waiting requests, its running requests, and the share of its KV cache in use. The first request of a front
end starts the group up to 0.28. In 0.31 it wakes the engines and does not start the group, and 0.33 ignores it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

Load = tuple[Any, ...]
"""Waiting and running requests of an engine, both ints; since 0.28 also the usage of its KV cache, from 0 to 1."""

Counts = tuple[Load, ...]
"""The load of each engine."""


class StartDpWave(NamedTuple):
    """To all engines: join a wave. `exclude`: the engine that is in it already."""

    wave: int
    exclude: int | None


class Published(NamedTuple):
    """To all front ends. `counts`: None if only the wave changed."""

    counts: Counts | None
    wave: int
    running: bool


class Sent(NamedTuple):
    """ "back": to all engines; "front": to all front ends."""

    to: Literal["back", "front"]
    message: StartDpWave | Published


class FirstRequest(NamedTuple):
    """From a front end: a request went to engine `exclude` while the front end believed the engines idle in `wave`."""

    exclude: int | None
    wave: int


class StartWave(NamedTuple):
    """From an engine: it is in this wave, or needs it."""

    engine: int
    wave: int


class WaveComplete(NamedTuple):
    """From an engine: this wave is over."""

    engine: int
    wave: int


class EngineCounts(NamedTuple):
    """From an engine: its requests after a step of a wave. `usage`: how full its KV cache is, since 0.28."""

    engine: int
    step: int
    wave: int
    waiting: int
    running: int
    usage: float = 0.0


FromEngine = StartWave | WaveComplete | EngineCounts
Changed = list[StartDpWave] | None
"""The wakes to send. None: the message changes nothing."""


class Coordination:
    """The state of the group. `enable_wave_coordination`: off for engines that do not step in lockstep. Then the
    coordinator relays counts only.
    """

    idle: ClassVar[Load] = (0, 0)
    """The load of an engine that has sent nothing yet."""

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
        """Take over the messages of one poll of the sockets, at most one of each side; the front end's comes first.

        Each message sends its wakes. The front ends receive one state, at the end.
        """
        before = self.current_wave, self.engines_running
        wakes = [self._first_request(front) if front else None, self._from_engine(engine) if engine else None]
        sent = [Sent("back", wake) for woken in wakes for wake in woken or ()]
        return [*sent, self._state(None)] if (self.current_wave, self.engines_running) != before else sent

    def scale(self, engines: int) -> list[Sent]:
        """Set the number of engines. An engine's message of the same poll stays in its socket."""
        more = engines - len(self._counts)
        if more > 0:
            self._counts += [self.idle] * more
            self._grown()
        else:
            del self._counts[engines:]
        return []

    @property
    def unpublished(self) -> bool:
        """Whether there are counts that the front ends do not have."""
        return self._counts_changed or self._counts_of_step_before is not None

    def published(self) -> list[Sent]:
        """Publish the counts to the front ends, as no message has arrived for a while."""
        counts, self._counts_of_step_before = self._counts_of_step_before, None
        if counts is None:
            counts, self._counts_changed = tuple(self._counts), False
        return [self._state(counts)]

    def _state(self, counts: Counts | None) -> Sent:
        return Sent("front", Published(counts, self.current_wave, self.engines_running))

    def _grown(self) -> None:
        """A new engine is in no wave, so the next request has to wake all."""
        self.engines_running = False

    # ---- the effect of a message

    def _first_request(self, told: FirstRequest) -> Changed:
        """The front end may know an old wave, and so have sent to an engine that is in none: then wake all engines."""
        if not self.enable_wave_coordination or self.engines_running:
            return None
        self.engines_running = True
        return [StartDpWave(self.current_wave, None if told.wave < self.current_wave else told.exclude)]

    def _from_engine(self, told: FromEngine) -> Changed:
        if isinstance(told, EngineCounts):
            self._count(told)
            return None
        if not self.enable_wave_coordination:
            return None
        return self._start_wave(told) if isinstance(told, StartWave) else self._wave_complete(told)

    def _start_wave(self, told: StartWave) -> Changed:
        if told.wave < self.current_wave or (told.wave == self.current_wave and self.engines_running):
            return None
        self.current_wave, self.engines_running = told.wave, True
        return [StartDpWave(told.wave, told.engine)]

    def _wave_complete(self, told: WaveComplete) -> Changed:
        if told.wave < self.current_wave:
            return None
        self.current_wave, self.engines_running = told.wave + 1, False
        return []

    def _count(self, told: EngineCounts) -> None:
        if (told.wave, told.step) > self._last_counted:
            self._later_step()
            self._last_counted = (told.wave, told.step)
        self._counts[told.engine] = (told.waiting, told.running)
        self._counts_changed = True

    def _later_step(self) -> None:
        """Keep the counts of all engines when the first counts of a later step arrive."""
        if self._counts_changed:
            self._counts_of_step_before = tuple(self._counts)


class Coordination024(Coordination):
    """0.24: growing changes nothing."""

    def _grown(self) -> None:
        pass


class Coordination028(Coordination024):
    """0.28: counts have the usage of the KV cache.

    Without lockstep the steps of engines are unrelated, and the coordinator keeps no counts. It ignores an engine
    beyond the group's size, which may have shrunk.
    """

    idle: ClassVar[Load] = (0, 0, 0.0)

    def _count(self, told: EngineCounts) -> None:
        if told.engine < len(self._counts):
            super()._count(told)
            self._counts[told.engine] = (told.waiting, told.running, told.usage)

    def _later_step(self) -> None:
        if self.enable_wave_coordination:
            super()._later_step()


class Coordination031(Coordination028):
    """0.31: a first request wakes engines, but does not set the group running: one that pauses drops its wake."""

    def _first_request(self, told: FirstRequest) -> Changed:
        running = self.engines_running
        woken = super()._first_request(told)
        self.engines_running = running
        return woken


class Coordination033(Coordination028):
    """0.33: only engines report that a wave begins."""

    def _first_request(self, told: FirstRequest) -> Changed:
        return None
