"""The objects of a rank that runs alone: streams, buffers, events, flags, threads and stores that only write the
journal.

Each await returns the value of the first run, in which all ranks ran. So no kernel runs, and no other rank exists.
Addresses, records and faults are those of the shared classes in `dpsim.backend`; the classes here add only the answer.

    rank = AloneRank(journal, answers)          # `answers.of(journal)`: the outcome of the last op in the first run
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsim.alone.communicators import AloneDeviceCommunicator, AloneHostCommunicator, CallAnswers
from dpsim.backend.calls.rank import JournaledRank
from dpsim.backend.calls.streams import JournaledEvent, JournaledStream
from dpsim.backend.graphs.kernel_call import KernelCall
from dpsim.backend.hosts.making import Made
from dpsim.backend.hosts.stores import JournaledStore
from dpsim.backend.hosts.threads import JournaledFlag, JournaledThread, ThreadProgram
from dpsim.backend.hosts.work import Outcome
from dpsim.backend.journal.issue import Issue
from dpsim.backend.journal.journal import Journal
from dpsim.backend.memory.buffers import JournaledBuffer
from dpsim.contract.interface import Frozen, Stream
from dpsim.contract.ops import DType
from dpsim.contract.rules.made_groups import GroupSpecs


class Answers(CallAnswers, Protocol):
    """It also runs the rank's host threads."""

    def start(self, rank: AloneRank, thread: AloneThread, program: ThreadProgram) -> None:
        """Starts a host thread."""


class AloneBuffer(JournaledBuffer):
    """A buffer without memory. A read returns the array of the first run."""

    __slots__ = ("_answers",)

    def __init__(self, stream: AloneStream, shape: tuple[int, ...], dtype: DType) -> None:
        super().__init__(stream, shape, dtype)
        self._answers = stream.answers

    def _view(self, start: int, stop: int) -> JournaledBuffer:
        assert isinstance(self.stream, AloneStream)
        return AloneBuffer(self.stream, (stop - start, *self.shape[1:]), self.dtype)

    def _copy(self, stream: Stream) -> Outcome:
        return self._answers.of(self.stream.journal)

    def _hold(self, stream: Stream) -> None:
        pass

    def _release(self) -> None:
        pass


class AloneEvent(JournaledEvent):
    """An event of a stream. A query or a synchronise returns the outcome of the first run."""

    __slots__ = ("_answers",)

    def __init__(self, stream: AloneStream, number: int) -> None:
        super().__init__(stream.journal, number)
        self._answers = stream.answers

    def _again(self, stream: JournaledStream) -> None:
        pass

    def _query(self) -> Outcome:
        return self._answers.of(self.journal)

    def _synchronize(self) -> Outcome:
        return self._answers.of(self.journal)


class AloneStream(JournaledStream):
    """A stream that runs nothing."""

    __slots__ = ("answers",)

    def __init__(self, journal: Journal, name: str, answers: Answers) -> None:
        super().__init__(journal, name)
        self.answers = answers

    def _alloc(self, shape: tuple[int, ...], dtype: DType) -> JournaledBuffer:
        return AloneBuffer(self, shape, dtype)

    def _launch(self, call: KernelCall) -> None:
        pass

    def _record(self, number: int, joins: bool = False) -> JournaledEvent:
        return AloneEvent(self, number)

    def _wait(self, event: JournaledEvent) -> None:
        pass

    def _wait_flag(self, flag: JournaledFlag) -> None:
        pass

    def _spin(self, ns: int) -> None:
        pass


class AloneFlag(JournaledFlag):
    """A flag. Waits and queries return the outcomes of the first run."""

    __slots__ = ("_answers",)

    def __init__(self, journal: Journal, name: str, answers: Answers) -> None:
        super().__init__(journal, name)
        self._answers = answers

    def _stand(self, ns: int) -> None:
        pass

    def _set(self) -> None:
        pass

    def _clear(self) -> None:
        pass

    def _wait(self, late_ns: int) -> Outcome:
        return self._answers.of(self.journal)

    def _query(self, late_ns: int) -> Outcome:
        return self._answers.of(self.journal)


class AloneThread(JournaledThread):
    """A host thread that the program has started."""

    __slots__ = ("_answers", "ended")

    def __init__(self, journal: Journal, name: str, answers: Answers) -> None:
        super().__init__(journal, name)
        self._answers = answers
        self.ended = False

    def _join(self) -> Outcome:
        answer = self._answers.of(self.journal)

        def outcome() -> Generator[Any, Any, str | None]:
            error_text: str | None = yield from answer()
            self.noticed = True
            return error_text

        return outcome

    @property
    def over(self) -> bool:
        return self.ended


class AloneStore(JournaledStore):
    """A store. Gets and changes return the outcomes of the first run."""

    __slots__ = ("_answers",)

    def __init__(self, journal: Journal, node: int, port: int, answers: Answers) -> None:
        super().__init__(journal, node, port)
        self._answers = answers

    def _put(self, key: str, value: Frozen) -> None:
        pass

    def _get(self, key: str, timeout_ns: int | None) -> Outcome:
        return self._answers.of(self.journal)

    def _change(self, key: str, how: str, operands: tuple[Any, ...]) -> Outcome:
        return self._answers.of(self.journal)

    def _close(self) -> None:
        pass


class AloneRank(JournaledRank):
    """The rank as its program sees it, without any other rank."""

    __slots__ = ("_answers",)

    def __init__(self, journal: Journal, answers: Answers) -> None:
        super().__init__(journal)
        self._answers = answers
        for spec in self.world.communicators:
            if self.rank not in spec.ranks:
                continue
            if spec.domain == "host":
                self.hosts[spec.kind] = AloneHostCommunicator(journal, spec, answers)
            else:
                self.devices[spec.kind] = AloneDeviceCommunicator(journal, spec, self.world.lazy)

    def _make(self, specs: GroupSpecs, issues: list[Issue]) -> Outcome:
        answer = self._answers.of(self.journal)

        def outcome() -> Generator[Any, Any, Made]:
            yield from answer()
            host = AloneHostCommunicator(self.journal, specs[0], self._answers)
            devices = [AloneDeviceCommunicator(self.journal, spec, self.world.lazy) for spec in specs[1:]]
            return host, devices[0] if devices else None

        return outcome

    def _stream(self, name: str) -> Stream:
        return AloneStream(self.journal, name, self._answers)

    def _flag(self, name: str) -> JournaledFlag:
        return AloneFlag(self.journal, name, self._answers)

    def _start(self, name: str, program: ThreadProgram) -> JournaledThread:
        thread = AloneThread(self.journal, name, self._answers)
        self._answers.start(self, thread, program)
        return thread

    def _post(self, to: int, mailbox: str, message: Frozen, delay_ns: int) -> None:
        if not 0 <= to < self.world.actors:
            raise ValueError(f"rank {self.rank} sends to rank {to}; there are ranks 0 to {self.world.actors - 1}")

    def _watch(self, actor: int, mailbox: str) -> None:
        pass

    def _take(self, mailbox: str, how: str, delay_ns: int, timeout_ns: int | None) -> Outcome:
        return self._answers.of(self.journal)

    def _sleep(self, ns: int) -> Outcome:
        return self._answers.of(self.journal)

    def _open_store(self, port: int) -> Outcome:
        return self._store(self.node)

    def _join_store(self, node: int, port: int, timeout_ns: int | None) -> Outcome:
        return self._store(node)

    def _store(self, node: int) -> Outcome:
        answer = self._answers.of(self.journal)

        def outcome() -> Generator[Any, Any, AloneStore | None]:
            port: int | None = yield from answer()
            return None if port is None else AloneStore(self.journal, node, port, self._answers)

        return outcome
