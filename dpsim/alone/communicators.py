"""Communicators of a rank that runs alone. They have no peers: a call only writes its record.

An await or a query returns the value of the first run (`dpsim.alone.answers`).

    group = AloneHostCommunicator(journal, spec, answers)
    await group.all_reduce(mine)                # the sum that the first run returned here
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.backend.calls.communicators import JournaledDeviceCommunicator
from dpsim.backend.hosts.host_communicators import JournaledHostCommunicator
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.contract.interface import Buffer, HostArray, Stream
from dpsim.contract.ops import DType
from dpsim.contract.world import CommunicatorSpec


class CallAnswers(Protocol):
    """The source of the values that awaits return."""

    def of(self, journal: Journal) -> Outcome:
        """Returns the outcome in the first run of the op that the journal wrote last."""


class AloneCall:
    """A collective or transfer of a host. Its await and its queries return the outcomes of the first run."""

    __slots__ = ("_answer", "_answers", "_journal")

    def __init__(self, journal: Journal, answers: CallAnswers) -> None:
        self._journal, self._answers = journal, answers
        self._answer = answers.of(journal)

    def __call__(self) -> Generator[Any, Any, Any]:
        return self._answer()

    def queried(self) -> AloneCall:
        return self

    def query(self) -> Outcome:
        return self._answers.of(self._journal)

    def within(self, timeout_ns: int) -> Outcome:
        return self.query()


class AloneHostCommunicator(JournaledHostCommunicator):
    """A host communicator whose calls return the results of the first run."""

    __slots__ = ("_answers",)

    def __init__(self, journal: Journal, spec: CommunicatorSpec, answers: CallAnswers) -> None:
        super().__init__(journal, spec)
        self._answers = answers

    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> AloneCall:
        return AloneCall(self.journal, self._answers)

    def _receive_any(self, array: HostArray, dtype: DType, delay_ns: int) -> AloneCall:
        return AloneCall(self.journal, self._answers)

    def _abort(self) -> None:
        pass

    def unless_aborted(self, site: str) -> Generator[Any, Any, None]:
        yield from ()  # the first run has the answer: Aborted, in the same turn


class AloneDeviceCommunicator(JournaledDeviceCommunicator):
    """Moves no data. `lazy`: the first run made it at its first use, which a capture refuses."""

    __slots__ = ("_lazy", "_made")

    def __init__(self, journal: Journal, spec: CommunicatorSpec, lazy: bool) -> None:
        super().__init__(journal, spec)
        self._lazy = lazy
        self._made: set[tuple[int, ...]] = set()

    def _put(self, issues: list[Issue], output: Buffer, source: Buffer, stream: Stream) -> None:
        if self.aborted:  # in a replay
            raise self.error(self.name)
        self._made.add(self.ranks)

    def _move(self, issues: list[Issue], buffer: Buffer, stream: Stream) -> None:
        if self.aborted:
            raise self.error(self.name)
        self._made.update(map(self._makes, issues))

    def _open(self, stream: Stream) -> None:
        pass

    def _close(self, stream: Stream) -> None:
        pass

    def _abort(self) -> None:
        pass

    def unmade(self, issue: Issue) -> bool:
        return self._lazy and self._makes(issue) not in self._made

    def _makes(self, issue: Issue) -> tuple[int, ...]:
        """A transfer outside of a coalesced group has a communicator for its pair."""
        if issue.group is not None or issue.peer is None:
            return self.ranks
        return min(self.journal.rank, issue.peer), max(self.journal.rank, issue.peer)
