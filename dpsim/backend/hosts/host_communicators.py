"""Host communicators of a rank: argument checks, default sites, and the journal. For devices, see
`dpsim.backend.calls.communicators`.

Each method of a host communicator plans an `Issue`, the call as the backend has to carry it out. It writes the call's
record, and passes the resulting issues to the backend. If a fault skips the call there are none; if a fault repeats it
there are two. The methods of collectives are in their files (`dpsim.contract.collectives`).
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from dpsim.backend.hosts.aborting import Abortable
from dpsim.backend.hosts.arguments import check_member, check_peer, dtype_of, unknown_dtype
from dpsim.backend.hosts.collective_methods import take_methods
from dpsim.backend.hosts.works import AnyWork, CallUnderway, CallWork, MemberWork
from dpsim.backend.journal.issue import Issue, plan
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import shape_of
from dpsim.contract.collectives.rules import Call
from dpsim.contract.dtypes import NUMPY
from dpsim.contract.interface import HostArray, HostCommunicator
from dpsim.contract.ops import DTYPES, DType
from dpsim.contract.rules.floats import COMPARES, FLOATS, has_nan
from dpsim.contract.world import CommunicatorSpec


class JournaledHostCommunicator(Abortable, HostCommunicator):
    """Host collectives and transfers of one rank."""

    __slots__ = ("aborted", "any_open", "destroyed", "journal")

    _root = check_member
    _dtype_of = staticmethod(dtype_of)

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.aborted = self.destroyed = False
        self.any_open = 0
        """How many receives from any source are not awaited yet."""
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)

    def destroy(self, *, site: str | None = None) -> CallWork:
        barrier: Call = ("barrier", 0, "int32", None, None, ())
        work = self._collective(barrier, np.empty(0, np.int32), (0,), site or f"{self.name}.destroy")
        self.destroyed = True
        return work

    def send(self, array: HostArray, to: int, *, site: str | None = None) -> CallWork:
        dtype = dtype_of(array, site or self.name)
        to = check_peer(self, to)
        issue = plan("send", array.size, dtype, None, None, (), to)
        return self._transfer(issue, array, (0,), site)

    def recv(self, shape: int | tuple[int, ...], dtype: DType, source: int, *, site: str | None = None) -> CallWork:
        source = check_peer(self, source)
        shape = shape_of(shape, site or f"{self.name}.recv")
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site or f"{self.name}.recv")
        array = np.zeros(shape, NUMPY[dtype])  # a short message leaves the rest of the array unchanged
        issue = plan("recv", array.size, dtype, None, None, (), source)
        return self._transfer(issue, array, shape, site)

    def recv_any(self, shape: int | tuple[int, ...], dtype: DType, *, site: str | None = None) -> CallWork:
        site = site or f"{self.name}.recv_any"
        shape = shape_of(shape, site)
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site)
        if self.size == 1:
            raise ValueError(
                f"{site}: rank {self.journal.rank} is the only member of {self.name}; no other rank can send to it"
            )
        self._refuse(site)
        journal, array = self.journal, np.zeros(shape, NUMPY[dtype])
        number = journal.seqs[self.name, "any"]
        journal.on("communicator", self.name)
        delay = journal.note("receive_any", site, (self.name, number, array.size, dtype))
        journal.seqs[self.name, "any"] = number + 1
        self.any_open += 1
        return AnyWork(journal, self, self._receive_any(array, dtype, delay))

    def took(self, source: int) -> None:
        """A receive from any source has ended."""
        self.any_open -= 1
        if source in self.ranks:
            self.journal.seqs[self.name, "recv", source] += 1

    def _refuse(self, site: str) -> None:
        if self.journal.shared.aborts:
            self.refuse_aborted(site)
        if self.destroyed:
            raise RuntimeError(
                f"{site}: rank {self.journal.rank} has destroyed {self.name}; make no call on it after that"
            )

    def _collective(self, call: Call, array: HostArray, shape: tuple[int, ...], site: str | None) -> CallWork:
        issue = plan(*call)
        site = site or f"{self.name}.{issue.op}"
        aborts = self.journal.shared.aborts
        if aborts or self.destroyed:
            self._refuse(site)
        issues = self.journal.collective(self.name, issue, None, site)
        if issue.dtype in FLOATS and issue.reduce in COMPARES and issues and has_nan(array):
            self.journal.brings_undefined(self.name, site, self.journal.ordinal)
        started = self._start(issues, array, shape)
        return MemberWork(self.journal, self, started) if aborts else CallWork(self.journal, started)

    def _transfer(self, issue: Issue, array: HostArray, shape: tuple[int, ...], site: str | None) -> CallWork:
        site = site or f"{self.name}.{issue.op}"
        aborts = self.journal.shared.aborts
        if aborts or self.destroyed:
            self._refuse(site)
        if self.any_open and issue.op == "recv":
            raise RuntimeError(
                f"{site}: rank {self.journal.rank} has not awaited its recv_any on {self.name}; "
                f"await it before a receive from rank {issue.peer}, or use another communicator"
            )
        issues = self.journal.transfer(self.name, issue, None, site)
        started = self._start(issues, array, shape)
        return MemberWork(self.journal, self, started) if aborts else CallWork(self.journal, started)

    @abstractmethod
    def _receive_any(self, array: HostArray, dtype: DType, delay_ns: int) -> CallUnderway:
        """Starts a receive into an array, with a planted delay of `delay_ns`. The outcome is a `Received`."""

    @abstractmethod
    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> CallUnderway:
        """Starts each issue now, on a copy of `array`. Returns an object that waits for the last issue; its result has
        the shape `shape`. If there is no issue, the result is the input, cut or filled with zeros.
        """


take_methods(JournaledHostCommunicator, "on_host")
