"""The elements that each member of a collective or transfer receives. The rules are in `dpsim.contract.collectives`,
one file per collective.

Every member of a collective receives what its own call describes, as far as it fits. If all members describe the same
collective, as a correct program does, one computation serves all of them. Timed and untimed mode both use this file, so
they agree on who receives what.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.backend.journal.issue import Issue
from dpsim.contract.collectives import role
from dpsim.contract.collectives.rules import Call
from dpsim.contract.collectives.sent import Sent
from dpsim.contract.interface import HostArray
from dpsim.contract.rules.floats import COMPARES, has_nan, minus_zeros, order_matters
from dpsim.sim.collectives.contribution import Contribution
from dpsim.sim.graph.machine import Machine


class Results(Sent):
    """The results of one collective or transfer. `indices`: the position of each member. `brought`: the contributions,
    in order of arrival. A result of None means that the member receives nothing, and its memory does not change.
    """

    def __init__(self, indices: Mapping[int, int], brought: Mapping[int, Contribution], machine: Machine) -> None:
        self.machine = machine
        self.indices = indices
        self.brought = brought
        self.wires = [one.sent() if (one := brought[rank]).issue.altered else one.source for rank in indices]
        self._made = {}

    @property
    def calls(self) -> list[Call]:
        return [self.brought[rank].issue.call for rank in self.indices]

    def all(self) -> list[HostArray | None]:
        """Returns the results of all members, in the order of `brought`."""
        issues = [own.issue for own in self.brought.values()]
        issue, members = issues[0], len(issues)
        if issues.count(issue) != members:
            return [self._one(rank, own.issue) for rank, own in self.brought.items()]
        rules, call = issue.rules, issue.call
        if rules.shared:
            result = rules.result(call, 0, self)
            if issue.root is None:
                return [result] * members
            return [result if role(issue.op, issue.root, rank)[1] else None for rank in self.brought]
        results = rules.results(call, self)
        return [results[self.indices[rank]] for rank in self.brought]

    def floats(self, how: str | None) -> None:
        """A NaN, or zeros of both signs, make max and min undefined. A sum may depend on the order of its terms."""
        if how in COMPARES:
            zeros = minus_zeros(self.wires, how)
            for own, zero in zip([self.brought[rank] for rank in self.indices], zeros, strict=True):
                if own.at is not None and (zero or has_nan(own.source)):
                    journal, name, site, ordinal = own.at
                    journal.brings_undefined(name, site, ordinal, zero)
        elif not self.machine.order_of_sums:
            self.machine.order_of_sums = order_matters(self.wires, "prod" if how == "prod" else "sum")

    def of(self, rank: int) -> HostArray | None:
        """Returns the result of one member."""
        return self._one(rank, self.brought[rank].issue)

    def _one(self, rank: int, issue: Issue) -> HostArray | None:
        if issue.peer is not None:
            return self.wires[self.indices[issue.peer]] if issue.op == "recv" else None
        if role(issue.op, issue.root, rank)[1]:
            return issue.rules.result(issue.call, self.indices[rank], self)
        return None
