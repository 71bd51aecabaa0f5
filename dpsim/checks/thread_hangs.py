"""Thread hangs: finds host threads of one rank that wait for each other. A part of the deadlock check.

A host thread waits for a flag, or joins another thread. The following threads may end this wait:

* the thread that is joined;
* the thread that set the flag last; if none has set it, those that set it on other ranks, or else all threads.

If one of these threads is blocked in a collective or get, the cause is outside this rank, and the deadlock check
reports that op. Otherwise this check follows the waits from thread to thread, and reports the last wait or a cycle:

    main   wait ready                    no thread sets it: u1 has ended    HANG:FLAG:THREAD_ENDED
    main   join u1     u1  wait ready    main set and cleared it before     HANG:FLAG:CLEARED
    main   join u1     u1  join main                                        HANG:JOIN
    main   wait a      u1  wait b        main set b, u1 set a               HANG:FLAG:CYCLE

If a thread raised and no thread joined it, the exception is a separate finding (`raised`), sorted before the waits.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.alike_hangs import folded
from dpsim.checks.finding import Culprit, Fact, Finding, also, fact
from dpsim.checks.limits import PLAIN
from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.thread_records import FlagHistory, is_idle, place, raised, sets, waits
from dpsim.contract.kinds import FOR_DEVICE, learns
from dpsim.contract.ops import ADDRESS, ENDED_MESSAGE, FLAG, FLAG_HOW, KIND, MAIN, THREAD, THREAD_NAME, RawRecord

THREAD_ENDED = "HANG:FLAG:THREAD_ENDED"


def check(run_index: RunIndex) -> list[Finding]:
    """Returns one finding for each rank whose threads hang. Ranks that hang alike share one."""
    blocked = [rank for rank in sorted(run_index.threaded) if run_index.end(rank) == "blocked"]
    found = [one for rank in blocked if (one := RankThreads(run_index, rank).finding()) is not None]
    return folded(found, len(run_index.run.journals))


def holds(run_index: RunIndex, rank: int) -> bool:
    """Returns whether only the threads of a rank block it."""
    blocked = rank in run_index.threaded and run_index.end(rank) == "blocked"
    return blocked and RankThreads(run_index, rank).finding() is not None


def blocked_elsewhere(run_index: RunIndex, rank: int) -> bool:
    """Returns whether a thread of a rank is blocked in an op that neither threads nor streams of the rank explain."""
    raws = [entry.raw for entry in stands(run_index, rank)]
    return any(learns(raw) and not (waits(raw) or is_idle(raw) or raw[KIND] in FOR_DEVICE) for raw in raws)


def stands(run_index: RunIndex, rank: int) -> list[Entry]:
    """Returns the op of each thread of a rank that has not ended."""
    return [*RankThreads(run_index, rank).living.values()]


def lines(run_index: RunIndex, rank: int) -> list[Fact]:
    """Returns the op or the end of each thread of a rank."""
    if rank not in run_index.threaded:
        return []
    return RankThreads(run_index, rank).lines()


class RankThreads:
    """The threads of one rank. `living`: the op of each. `ends`: the last records of those that ended."""

    def __init__(self, run_index: RunIndex, rank: int) -> None:
        self.run_index, self.rank = run_index, rank
        self.journal = run_index.run.journals[rank]
        self.living = {entry.raw[THREAD]: self._blocked_op(entry) for entry in run_index.living(rank)}
        self.ends = {
            raw[THREAD]: Entry(rank, at, raw)
            for at, raw in enumerate(self.journal)
            if raw[KIND] == "ended" and raw[THREAD] not in self.living
        }
        main = self.living.get(MAIN)
        if main is not None and not self._holds(main):  # it has ended, and only waits for the other threads
            self.ends[MAIN] = self.living.pop(MAIN)

    def _holds(self, entry: Entry) -> bool:
        return learns(entry.raw) or (entry.raw[KIND] in PLAIN and self.rank in self.run_index.run.standing)

    def _blocked_op(self, last: Entry) -> Entry:
        learned = {raw[ADDRESS] for raw in self.journal if raw[KIND] == "learned"}
        for at in range(last.at, -1, -1):
            raw = self.journal[at]
            if raw[THREAD] == last.raw[THREAD] and learns(raw) and raw[ADDRESS] not in learned:
                return Entry(self.rank, at, raw)
        return last

    def finding(self) -> Finding | None:
        """Returns the finding if only the threads of this rank cause its hang, or None."""
        held = [name for name, entry in self.living.items() if waits(entry.raw) and self._within(name)]
        if not held:
            return None
        first = min(held, key=self._before)
        path = [first]
        while (after := self._next(path[-1])) is not None and after not in path:
            path.append(after)
        name = path[-1]
        cycle = path[path.index(after) :] if after is not None else []
        if not waits(self.living[name].raw):  # it waits in an idle get, and another thread joins it
            name = path[-2]
        entry = self.living[name]
        klass, why = self._why(name, cycle)
        position = self.run_index.position(entry)
        for crash in raised(self.run_index, self.rank):
            step, number = self.run_index.position(crash)
            position = max(position, (step, number + 1))
        return Finding(
            check="deadlock",
            klass=klass,
            message=fact("thread", thread=name, ranks=(self.rank,), does=why),
            culprit=self.run_index.culprit(entry) if klass != THREAD_ENDED else self._culprit(name),
            position=position,
            details=tuple(self.lines()),
        )

    def _before(self, name: str) -> tuple[int, int, bool, str]:
        """Returns a sort key: threads by position, and last those that wait for a flag that no thread set."""
        entry = self.living[name]
        step, number = self.run_index.position(entry)
        unset = entry.raw[KIND] == "flag" and not self._setters(entry.raw[FLAG])
        return (step, int(name != MAIN), False, name) if unset else (step, number, name == MAIN, "")

    def _culprit(self, name: str) -> Culprit:
        entry = self.living[name]
        ended = [self.ends[one] for one in self._setters(entry.raw[FLAG]) or self.ends if one in self.ends]
        raised = next((one for one in ended if one.raw[KIND] == "ended" and one.raw[ENDED_MESSAGE]), None)
        if raised is not None:
            return replace(self.run_index.culprit(raised), site=raised.raw[ENDED_MESSAGE].partition(":")[0])
        return self.run_index.culprit(self._other_set(entry.raw) or entry)

    def _within(self, name: str) -> bool:
        seen, left = {name}, [name]
        while left:
            for other in self._may_let_go(left.pop()):
                raw = self.living[other].raw
                if not waits(raw) and not is_idle(raw):
                    return False
                if other not in seen:
                    seen.add(other)
                    left.append(other)
        return True

    def _may_let_go(self, name: str) -> list[str]:
        raw = self.living[name].raw
        if raw[KIND] == "thread":
            return [one for one in self.living if one == raw[THREAD_NAME]]
        if not waits(raw):
            return []
        setters = self._setters(raw[FLAG])
        return [one for one in self.living if (one in setters or not setters) and one != name]

    def releasing(self, name: str) -> list[str]:
        """Returns the threads that would end this wait. If some of them have ended, only those."""
        entry = self.living.get(name)
        if entry is None or not waits(entry.raw):
            return []
        if entry.raw[KIND] == "thread":
            return [entry.raw[THREAD_NAME]]
        setters, ended = self._could_set(name)
        return ended or setters

    def _could_set(self, name: str) -> tuple[list[str], list[str]]:
        """Returns the threads that set the awaited flag, and those that would set it but have ended."""
        flag = self.living[name].raw[FLAG]
        setters = [one for one in self._setters(flag) if one != name]
        ended = [one for one in setters or self.ends if one in self.ends]
        if self._flag(flag).sets:  # the flag was set, so the setter's end matters only if it raised
            ended = [one for one in ended if self.ends[one].raw[KIND] == "ended" and self.ends[one].raw[ENDED_MESSAGE]]
        return setters, ended

    def _setters(self, flag: str) -> list[str]:
        """Returns the thread that set a flag last. If none of this rank did, the threads that did on other ranks."""
        own = self._flag(flag).sets
        if own:
            return [own[-1].raw[THREAD]]
        journals = self.run_index.run.journals
        return sorted({raw[THREAD] for journal in journals for raw in journal if sets(raw, flag)})

    def _next(self, name: str) -> str | None:
        raw = self.living[name].raw
        if raw[KIND] == "flag" and not self._setters(raw[FLAG]):
            return None
        after = self._may_let_go(name)
        return after[0] if len(after) == 1 else None

    def _flag(self, flag: str) -> FlagHistory:
        return FlagHistory.of(self.rank, self.journal, flag)

    def _why(self, name: str, cycle: list[str]) -> tuple[str, Fact]:
        entry = self.living[name]
        raw = entry.raw
        if cycle:
            waits = tuple(fact("of_thread", thread=one, does=self._wait(one)) for one in cycle)
            kinds = {self.living[one].raw[KIND] for one in cycle}
            klass = "HANG:JOIN" if kinds == {"thread"} else "HANG:FLAG:CYCLE"
            return klass, fact("in_cycle", waits=waits)
        if raw[KIND] == "thread":
            other = raw[THREAD_NAME]
            return "HANG:JOIN", fact("joins", thread=other, where=place(entry), state=self._state(other))
        flag = self._flag(raw[FLAG])
        setters, ended = self._could_set(name)
        others = ended or setters or [one for one in self.living if one != name]
        klass = THREAD_ENDED if ended else "HANG:FLAG:CLEARED" if flag.sets else "HANG:FLAG:NEVER_SET"
        return klass, fact(
            "waits_in_vain",
            flag=raw[FLAG],
            where=place(entry),
            history=self._history(flag, name),
            instead=self._instead(raw),
            others=also(*(fact("of_thread", thread=one, does=self._state(one)) for one in others)),
        )

    def _instead(self, awaited: RawRecord) -> Fact | None:
        last = self._other_set(awaited)
        return last and fact("set_instead", thread=last.raw[THREAD], flag=last.raw[FLAG], where=place(last))

    def _other_set(self, awaited: RawRecord) -> Entry | None:
        """Returns the last set of any flag on this rank, if it may have been meant for the awaited flag; otherwise
        None.

        It must be a set of another flag by another thread, and no thread waited for that other flag since.
        """
        flags = [Entry(self.rank, at, raw) for at, raw in enumerate(self.journal) if raw[KIND] == "flag"]
        at = max((at for at, one in enumerate(flags) if one.raw[FLAG_HOW] == "set"), default=0)
        last = flags[at]  # the list is not empty, because a thread waits for a flag
        again = any((one.raw[FLAG], one.raw[FLAG_HOW]) == (last.raw[FLAG], "wait") for one in flags[at:])
        other = last.raw[FLAG] != awaited[FLAG] and last.raw[THREAD] != awaited[THREAD]
        return None if last.raw[FLAG_HOW] != "set" or again or not other else last

    def _history(self, flag: FlagHistory, own: str) -> Fact:
        if not flag.sets:
            journals = enumerate(self.run_index.run.journals)
            name = self.living[own].raw[FLAG]
            elsewhere = (Entry(rank, at, raw) for rank, journal in journals for at, raw in enumerate(journal))
            other = next((entry for entry in elsewhere if sets(entry.raw, name)), None)
            if other is None:
                return fact("never_set")
            return fact("set_elsewhere", thread=other.raw[THREAD], rank=other.rank, where=place(other))
        cleared = flag.cleared and fact("cleared", by=_name(flag.cleared, own), where=place(flag.cleared), late=False)
        return fact("set_last", by=_name(flag.sets[-1], own), where=place(flag.sets[-1]), cleared=cleared)

    def _wait(self, name: str) -> Fact:
        entry = self.living[name]
        raw = entry.raw
        if raw[KIND] == "thread":
            return fact("joins_thread", thread=raw[THREAD_NAME], where=place(entry))
        flag = self._flag(raw[FLAG])
        history = self._history(flag, name) if flag.sets else None
        return fact("waits_for_flag", flag=raw[FLAG], where=place(entry), history=history)

    def _state(self, name: str) -> Fact:
        if name in self.ends:
            end = self.ends[name]
            message = end.raw[ENDED_MESSAGE] if end.raw[KIND] == "ended" else ""
            if message:
                return fact("thread_raised", message=message, where=end.record.where, step=end.step)
            return fact("thread_ended", step=end.step)
        if name not in self.living:
            return fact("no_op_yet")
        entry = self.living[name]
        return self._wait(name) if waits(entry.raw) else fact("blocked_in", op=entry.record, where=place(entry))

    def lines(self) -> list[Fact]:
        names = [*self.living, *self.ends]
        return [fact("thread", thread=name, ranks=(self.rank,), does=self._state(name)) for name in names]


def _name(entry: Entry, own: str) -> str:
    """Returns the thread of an op; empty for the thread `own`, for which a sentence has a pronoun."""
    name: str = entry.raw[THREAD]
    return "" if name == own else name
