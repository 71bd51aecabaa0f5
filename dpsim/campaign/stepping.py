"""Stepping: stops a replay at a step, opens a debugger at an op, or prints who waits for whom after each choice.

    looks = Stepping(at=break_address("rank 1 dp.agree[5]"), debug=open_debugger)
    with stepping(looks):
        subject.run(follow)

This affects only the first run that begins, because a replay makes further runs for its report.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from dpsim.backend.journal.call_site import is_own_code
from dpsim.backend.journal.own_raise import DebuggerQuit
from dpsim.campaign.rank_state import NO_STEP, look_of, state_lines
from dpsim.contract.kinds import NO_ACTS
from dpsim.contract.ops import ADDRESS, KIND, LEARNED_OUTCOME, MAIN, ORDINAL, SITE, STEP, THREAD, RawRecord
from dpsim.contract.schedule import Candidate, RunStopped
from dpsim.contract.words import BadInput, counted, short, with_services
from dpsim.contract.world import World
from dpsim.explore.normal_form import is_draw
from dpsim.explore.strategies.replay import ScheduleReplay
from dpsim.sim.graph.machine import Machine
from dpsim.sim.onlooker import looking_on

NAMED = 3

_ADDRESS = re.compile(r"(?:(?:rank )?(\d{1,9})(?:/(\S+))? )?([^\s\[\]]+)(?:\[(\d{1,18})\])?")


class StoppedAt(RunStopped):
    """The run stopped before a step. `lines`: where each rank is."""

    def __init__(self, step: int, lines: Sequence[str]) -> None:
        super().__init__(f"step {step}")
        self.step, self.lines = step, lines


class BreakAddress(NamedTuple):
    """The address of an op. `rank` and `ordinal` are None for any; then the first such op counts."""

    rank: int | None
    thread: str
    site: str
    ordinal: int | None

    def __str__(self) -> str:
        thread = "" if self.thread == MAIN else f"/{self.thread}"
        rank = "" if self.rank is None else f"rank {self.rank}{thread} "
        return f"{rank}{self.site}" + ("" if self.ordinal is None else f"[{self.ordinal}]")


def break_address(text: str) -> BreakAddress:
    """Returns the address in a text, in the form of reports and schedules. Raises BadInput.

    >>> str(break_address("1 dp.agree[5]")), str(break_address("rank 0/ubatch.1 turn")), str(break_address("dp.agree"))
    ('rank 1 dp.agree[5]', 'rank 0/ubatch.1 turn', 'dp.agree')
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"{text!r}: no address of an op; expected for instance 'rank 1 dp.agree[5]', or a site alone")
    rank, thread, site, ordinal = found.groups()
    return BreakAddress(
        None if rank is None else int(rank), thread or MAIN, site, None if ordinal is None else int(ordinal)
    )


class Stepping:
    """A debugger of a replay. `until`: the step before which the run stops. `at`: the op at which it calls `debug`
    (with the program's frame, this object and the rank), which returns whether the user quits. `say` receives the lines
    of each choice, of which there were `told`. `last`, `sites`: of the rank's ops, for the case that `at` is not
    reached.
    """

    def __init__(
        self,
        until: int | None = None,
        at: BreakAddress | None = None,
        debug: Callable[[FrameType, Stepping, int], bool] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.until, self.at, self.debug, self.say = until, at, debug, say
        self.world: World | None = None
        self.reached = False
        self.last: BreakAddress | None = None  # the last op of the rank of `at`, or of any rank
        self.sites: set[str] = set()
        self.told = 0
        self._here: BreakAddress | None = None  # the op of `at`, once the run has reached it
        self.programs: Sequence[Any] = ()
        self._machine: Machine | None = None
        self._journals: Sequence[Sequence[RawRecord]] | None = None
        self._over = False
        self._printed: dict[int, int] = {}

    def begins(self, machine: Machine, journals: Sequence[Sequence[RawRecord]], programs: Sequence[Any]) -> None:
        if self._machine is None:
            self._machine, self._journals, self.programs = machine, journals, programs
        else:
            self._over = True

    def noted(self, rank: int, raw: RawRecord) -> BaseException | None:
        """Stops here, or opens the debugger, if this is the place."""
        machine = self._machine
        if self._over or machine is None or raw[KIND] in NO_ACTS:
            return None
        if self.until is not None and self.until <= raw[STEP] < NO_STEP:
            return machine.halt(StoppedAt(self.until, self.lines()))
        if self.at is None or self.reached:
            return None
        if not _is_at(self.at, rank, raw):
            if raw[KIND] not in ("end", "raised") and self.at.rank in (None, rank) and self.at.thread == raw[THREAD]:
                self.last = BreakAddress(rank, raw[THREAD], raw[SITE], raw[ORDINAL])
                self.sites.add(raw[SITE])
            return None
        self.reached = True
        self._here = BreakAddress(rank, raw[THREAD], raw[SITE], raw[ORDINAL])
        if self.debug is not None and self.debug(_program_frame(sys._getframe(1)), self, rank):
            return machine.halt(DebuggerQuit())
        return None

    def lines(self) -> list[str]:
        """Returns where each rank is, and for which ranks it waits."""
        if self.world is None or self._journals is None:
            return []
        return state_lines(self.world, self._journals)

    def stop_words(self) -> str:
        """Returns a line with the op at which the debugger stops; empty before that."""
        at, world = self._here, self.world
        if at is None or world is None:
            return ""
        words = f"pdb stops in {at}: the rank has issued this call, and the call has not returned"
        return with_services(words, world.size, world.services)

    def follow(self, steps: Sequence[str], strict: bool) -> ScheduleReplay:
        """Returns the strategy that follows a schedule, and prints each choice if the user wants that."""
        return ScheduleReplay(steps, strict) if self.say is None else _Announced(steps, strict, self)

    def chosen(self, number: int, of: int, word: str, others: Sequence[str]) -> None:
        """Prints a choice, once the run has continued after it. `others`: the ops that were possible in its place."""
        if self.say is not None:
            self.told += 1
            place = f"choice {number:,}{f' of {of:,}' * (number <= of)}"
            first = f"{place}: {word}{_outcome(word, self._journals or ())}{_also(others)}"
            if self.world is not None:
                first = with_services(first, self.world.size, self.world.services)
            self.say("\n".join([first, *(f"  {line}" for line in [*self._taken(), *self.lines()])]))

    def _taken(self) -> list[str]:
        """Returns the messages that gets took since the last choice. The line of the choice has those of polls."""
        lines: list[str] = []
        for rank, journal in enumerate(self._journals or ()):
            begin, self._printed[rank] = self._printed.get(rank, 0), len(journal)
            for raw in journal[begin:]:
                if raw[KIND] == "learned" and raw[LEARNED_OUTCOME] is not None:
                    own = (one for one in journal if one[KIND] != "learned" and one[ADDRESS] == raw[ADDRESS])
                    take = next(own, None)
                    if take is not None and take[KIND] == "take" and not look_of(take):
                        outcome = short(repr(raw[LEARNED_OUTCOME]), 60)
                        lines.append(f"rank {rank} took {outcome} at {raw[SITE]}[{raw[ORDINAL]}]")
        world = self.world
        return lines if world is None else [with_services(line, world.size, world.services) for line in lines]

    def frame_of(self, rank: int) -> FrameType | None:
        """Returns the innermost frame in which a rank's program is; None if there is no coroutine."""
        return _innermost(self.programs[rank]) if 0 <= rank < len(self.programs) else None

    def without_frame(self, rank: int) -> str:
        """Returns why a rank has no frame: "has not started" or "has ended". Empty if there is no such rank."""
        if not 0 <= rank < len(self.programs):
            return ""
        state = inspect.getcoroutinestate(self.programs[rank])
        return "has not started" if state == inspect.CORO_CREATED else "has ended"

    def running(self) -> int | None:
        """Returns the rank whose program runs now; None if a host thread beside the main thread runs."""
        return next((rank for rank, one in enumerate(self.programs) if getattr(one, "cr_running", False)), None)


@contextmanager
def stepping(looks: Stepping) -> Iterator[None]:
    """Shows the run in the block to `looks`. Afterwards no debugger traces, so the runs for the report do not stop."""
    try:
        with looking_on(looks):
            yield
    finally:
        if looks.reached and looks.debug is not None:
            sys.settrace(None)


class _Announced(ScheduleReplay):
    """Follows a schedule, and prints each choice when the next one is due."""

    def __init__(self, noted: Sequence[str], strict: bool, looks: Stepping) -> None:
        super().__init__(noted, strict)
        self._looks = looks
        self._last: tuple[int, str, list[str]] | None = None
        self._many = sum(not is_draw(word) for word in noted)

    def pick(self, candidates: Sequence[Candidate]) -> int:
        self._tell()
        index = super().pick(candidates)
        labels = [one.label for one in candidates]
        self._last = len(self.order.steps), labels.pop(index), labels
        return index

    def end(self, whole: bool) -> None:
        self._tell()
        super().end(whole)

    def _tell(self) -> None:
        if self._last is not None:
            number, word, others = self._last
            self._last = None
            self._looks.chosen(number, self._many, word, others)


def _is_at(at: BreakAddress, rank: int, raw: RawRecord) -> bool:
    return (
        raw[SITE] == at.site
        and at.rank in (None, rank)
        and at.ordinal in (None, raw[ORDINAL])
        and (at.rank is None or raw[THREAD] == at.thread)
    )


def _program_frame(frame: FrameType) -> FrameType:
    inner: FrameType | None = frame
    while inner is not None and is_own_code(inner):
        inner = inner.f_back
    return inner or frame


def _innermost(program: Any) -> FrameType | None:
    found: FrameType | None = None
    while program is not None:
        frame = getattr(program, "cr_frame", None)
        if frame is not None and not is_own_code(frame):
            found = frame
        program = getattr(program, "cr_await", None)
    return found


def _also(others: Sequence[str]) -> str:
    """Returns the ops that were possible in place of a choice, up to three of them.

    >>> _also(["rank 0 look[1]"]), _also(["a", "b", "c", "d", "e"]), _also([])
    ('  (also possible: rank 0 look[1])', '  (also possible: a, b, c, and 2 more ops)', '')
    """
    more = [f"and {counted(len(others) - NAMED, 'more op')}"] * (len(others) > NAMED)
    return f"  (also possible: {', '.join([*others[:NAMED], *more])})" if others else ""


def _outcome(word: str, journals: Sequence[Sequence[RawRecord]]) -> str:
    """Returns the message that a get or poll of this choice took; empty if it is none or has not returned."""
    try:
        at = break_address(word)
    except BadInput:
        return ""
    if at.rank is None or at.ordinal is None or at.rank >= len(journals):
        return ""
    journal = journals[at.rank]
    looks = {raw[ADDRESS]: raw for raw in journal if _is_at(at, at.rank, raw) and look_of(raw) and raw[KIND] != "ask"}
    for raw in journal:
        if raw[KIND] == "learned" and raw[ADDRESS] in looks:
            outcome = raw[LEARNED_OUTCOME]
            return ", and found nothing" if outcome is None else f", and took {short(repr(outcome), 60)}"
    return ""
