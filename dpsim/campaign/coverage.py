"""Coverage: counts in how many worlds some schedule reached each probe, mode, branch and table row that programs
declare.

    coverage = Coverage()
    coverage.declare("my_protocol")             # all that the registry knows of it, reached by no world yet
    coverage.add(explored.subject, explored.exploration)
    coverage.never("probes")                    # ["my_protocol: late"]

    probes      labels of `Rank.probe` that the program names (`Program.probes`)
    modes       decisions that the program names (`Program.modes`)
    branches    two sites that raced, in each order: one order is reached, the other may be not
    rows        rows of tables: forms, pieces and variants of the registry, and `Program.rows`

A world is a scenario's program with fixed parameters and faults. Each counted name begins with its protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from dpsim.campaign.subject import Subject
from dpsim.contract import registry
from dpsim.contract.program import Arguments, Program
from dpsim.explore import Exploration

KINDS = ("probes", "modes", "branches", "rows")

Counts: TypeAlias = Mapping[str, Mapping[str, int]]


class Coverage:
    """The counts over worlds so far."""

    def __init__(self) -> None:
        self.worlds = 0
        self.counts: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}

    def declare(self, protocol: str) -> None:
        """Declares all names of a protocol except variants, with count 0. Raises UnknownName."""
        entry = registry.protocol(protocol)
        self._declare(protocol, entry.program.probes, entry.program, entry.forms)

    def add(self, subject: Subject, *explorations: Exploration) -> None:
        """Adds a world and the results of its explorations. Also declares the names that the world can reach."""
        self.worlds += 1
        entry = None if subject.origin is None else registry.protocol(subject.origin.protocol)
        args = None if subject.origin is None else subject.origin.args
        protocol, program = (subject.name, subject.program) if entry is None else (entry.name, entry.program)
        self._declare(protocol, subject.probes, program, () if entry is None else entry.forms)
        reached: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for found in explorations:
            reached["probes"] |= {name for name in found.probes if name in program.probes}
            reached["modes"] |= {name for name in program.modes if found.decided[name]}
            reached["rows"] |= {f"row {name}" for name in program.rows if found.decided[name]}
            for one, other in found.races:
                reached["branches"].add(f"{one} before {other}")
                self._count("branches", protocol, [f"{other} before {one}"], 0)
        if isinstance(args, Arguments) and any(found.runs for found in explorations):
            pieces = subject.program.forms_of_pieces(args).items()
            reached["rows"] |= {f"form {args.form}", *(f"piece {piece} {form}" for piece, form in pieces)}
            reached["rows"] |= {f"variant {args.variant}"} if args.variant is not None else set()
        for kind, names in reached.items():
            self._count(kind, protocol, names, 1)

    def merge(self, counts: Counts, worlds: int = 0) -> None:
        """Adds counts from elsewhere."""
        self.worlds += worlds
        for kind in KINDS:
            own = self.counts[kind]
            for name, number in counts.get(kind, {}).items():
                own[name] = own.get(name, 0) + number

    def never(self, kind: str) -> list[str]:
        """Returns the names that no world reached, sorted."""
        return sorted(name for name, number in self.counts[kind].items() if not number)

    def reached(self, kind: str) -> int:
        """Returns the number of names that at least one world reached."""
        return sum(number > 0 for number in self.counts[kind].values())

    def as_json(self) -> dict[str, Any]:
        """Returns the counts as plain data: by kind, the names that no world reached, and the counts of the others."""
        kinds = {
            kind: {
                "never": self.never(kind),
                "reached": {name: number for name, number in sorted(self.counts[kind].items()) if number},
            }
            for kind in KINDS
        }
        return {"worlds": self.worlds, **kinds}

    def _declare(
        self, protocol: str, probes: Iterable[str], program: Program[Any] | type[Program[Any]], forms: Iterable[str]
    ) -> None:
        pieces = [f"piece {piece} {form}" for piece, every in program.pieces.items() for form in every]
        self._count("probes", protocol, probes, 0)
        self._count("modes", protocol, program.modes, 0)
        self._count("rows", protocol, [f"form {form}" for form in forms] + pieces, 0)
        self._count("rows", protocol, (f"row {name}" for name in program.rows), 0)

    def _count(self, kind: str, protocol: str, names: Iterable[str], number: int) -> None:
        own = self.counts[kind]
        for name in names:
            key = f"{protocol}: {name}"
            own[key] = own.get(key, 0) + number
