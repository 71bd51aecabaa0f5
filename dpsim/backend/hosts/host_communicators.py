"""Host communicators of a rank: argument checks, default sites, the journal; see `communicators`, for devices.

Every method plans an `Issue`, journals it, and hands what became of it to the backend: none if it was skipped, two
if it was repeated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from dpsim.backend.hosts.aborting import Abortable
from dpsim.backend.hosts.arguments import (
    check_member,
    check_peer,
    check_sizes,
    dtype_of,
    equal_size,
    given_sizes,
    reduction_name,
    unknown_dtype,
)
from dpsim.backend.hosts.work import Outcome, Work
from dpsim.backend.journal.issue import Issue, plan
from dpsim.backend.journal.journal import Journal
from dpsim.backend.journal.plain import shape_of
from dpsim.contract.interface import HostArray, HostCommunicator
from dpsim.contract.ops import DTYPES, DType, ReduceOp
from dpsim.contract.world import CommunicatorSpec


class JournaledHostCommunicator(Abortable, HostCommunicator):
    """Host collectives and transfers of one rank."""

    __slots__ = ("aborted", "destroyed", "journal")

    def __init__(self, journal: Journal, spec: CommunicatorSpec) -> None:
        self.journal = journal
        self.aborted = self.destroyed = False
        self.name = spec.name
        self.ranks = spec.ranks
        self.index = spec.ranks.index(journal.rank)

    def all_reduce(self, array: HostArray, *, op: ReduceOp = "sum", site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        issue = plan("all_reduce", array.size, dtype, None, reduction_name(op))
        return self._collective(issue, array, array.shape, site)

    def broadcast(self, array: HostArray, root: int, *, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        root = check_member(self, root, "root")
        issue = plan("broadcast", array.size, dtype, root)
        return self._collective(issue, array, array.shape, site)

    def all_gather(self, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        whole = check_sizes(self, "sizes", sizes, array.size * self.size)
        if whole[self.index] != array.size:
            raise ValueError(
                f"{self.name}: sizes say {whole[self.index]} elements of this rank, it brings {array.size}"
            )
        issue = plan("all_gather", array.size, dtype, None, None, given_sizes(sizes))
        return self._collective(issue, array, (sum(whole),), site)

    def reduce_scatter(self, array: HostArray, *, sizes: Sequence[int] | None = None, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        whole = check_sizes(self, "sizes", sizes, array.size)
        issue = plan("reduce_scatter", array.size, dtype, None, "sum", given_sizes(sizes))
        return self._collective(issue, array, (whole[self.index],), site)

    def all_to_all(
        self,
        array: HostArray,
        *,
        output_sizes: Sequence[int] | None = None,
        source_sizes: Sequence[int] | None = None,
        site: str | None = None,
    ) -> Work:
        dtype = dtype_of(array, site or self.name)
        sizes: tuple[int, ...] = ()
        come = array.size if output_sizes is None else sum(given_sizes(output_sizes))
        if source_sizes is None and output_sizes is None:
            equal_size(self, "source_sizes", come)
        else:
            go = check_sizes(self, "source_sizes", source_sizes, array.size)
            sizes = (*go, *check_sizes(self, "output_sizes", output_sizes, come))
        issue = plan("all_to_all", array.size, dtype, None, None, sizes)
        return self._collective(issue, array, (come,), site)

    def barrier(self, *, site: str | None = None) -> Work:
        return self._collective(plan("barrier", 0, "int32"), np.empty(0, np.int32), (0,), site)

    def destroy(self, *, site: str | None = None) -> Work:
        work = self._collective(
            plan("barrier", 0, "int32"), np.empty(0, np.int32), (0,), site or f"{self.name}.destroy"
        )
        self.destroyed = True
        return work

    def send(self, array: HostArray, to: int, *, site: str | None = None) -> Work:
        dtype = dtype_of(array, site or self.name)
        to = check_peer(self, to)
        issue = plan("send", array.size, dtype, None, None, (), to)
        return self._transfer(issue, array, (0,), site)

    def recv(self, shape: int | tuple[int, ...], dtype: DType, source: int, *, site: str | None = None) -> Work:
        source = check_peer(self, source)
        shape = shape_of(shape, site or f"{self.name}.recv")
        if dtype not in DTYPES:
            raise unknown_dtype(dtype, site or f"{self.name}.recv")
        array = np.zeros(shape, dtype)  # a message that is too short leaves the rest
        issue = plan("recv", array.size, dtype, None, None, (), source)
        return self._transfer(issue, array, shape, site)

    def _collective(self, issue: Issue, array: HostArray, shape: tuple[int, ...], site: str | None) -> Work:
        site = site or f"{self.name}.{issue.op}"
        if self.journal.shared.aborts:
            self.refuse_aborted(site)
        if self.destroyed:
            raise RuntimeError(
                f"{site}: rank {self.journal.rank} has destroyed {self.name}; make no call on it behind that"
            )
        issues = self.journal.collective(self.name, issue, None, site)
        return Work(self.journal, self._start(issues, array, shape))

    def _transfer(self, issue: Issue, array: HostArray, shape: tuple[int, ...], site: str | None) -> Work:
        site = site or f"{self.name}.{issue.op}"
        if self.journal.shared.aborts:
            self.refuse_aborted(site)
        if self.destroyed:
            raise RuntimeError(
                f"{site}: rank {self.journal.rank} has destroyed {self.name}; make no call on it behind that"
            )
        issues = self.journal.transfer(self.name, issue, None, site)
        return Work(self.journal, self._start(issues, array, shape))

    @abstractmethod
    def _start(self, issues: list[Issue], array: HostArray, shape: tuple[int, ...]) -> Outcome:
        """Start each issue on a copy of `array`, now. The answer waits for the last and gives its result, of
        `shape`; where there is none, as much of the input as fits, and zeros.
        """
