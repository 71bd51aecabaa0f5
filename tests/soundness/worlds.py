"""Helpers for the tests of this folder, which write a script, run or explore it, and check the findings.

Each test checks a rule that dpsim once broke, with a false proof or with a finding that had no cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.campaign.explored import Explored
from dpsim.checks.finding import Finding, matches
from dpsim.contract.interface import Buffer, Stream
from dpsim.contract.schedule import CutOff
from dpsim.contract.world import End, World
from dpsim.explore.strategies.dpor import Dpor
from tests.programs import Script, run, set_to


def all_ends(world: World, script: Script) -> set[tuple[End, ...]]:
    """Returns the ends of all ranks, for each schedule."""
    strategy, ends = Dpor(), set()
    while strategy.begin():
        try:
            ends.add(tuple(run(world, script, choose=strategy, memory=False).ends))
            whole = True
        except CutOff:
            whole = False
        strategy.end(whole)
    return ends


def shows(findings: Sequence[Finding] | Explored, pattern: str) -> bool:
    """Returns whether a finding has a class of that pattern. For an exploration, only the shown failing run counts."""
    listed = findings.findings if isinstance(findings, Explored) else findings
    return any(matches(finding.klass, pattern) for finding in listed)


def filled(stream: Stream, site: str, size: int = 4, value: int = 1) -> Buffer:
    """Returns a buffer that a kernel on the stream fills with `value`."""
    buffer = stream.alloc(size, "int32", site)
    stream.launch(f"fill.{site}", set_to, writes=[buffer], args=(value,))
    return buffer
