"""What the tests in this folder share: they write a script, run or explore it, and ask what was found.

Each test asserts what has to hold, and once did not: a proof that was false, an alarm without a cause.
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
    """How the ranks end, in each schedule."""
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
    """Whether a finding has a class of that pattern; of what was explored, in the run that shows the failure."""
    listed = findings.findings if isinstance(findings, Explored) else findings
    return any(matches(finding.klass, pattern) for finding in listed)


def filled(stream: Stream, site: str, size: int = 4, value: int = 1) -> Buffer:
    """A buffer of numbers, which a kernel on the stream writes."""
    buffer = stream.alloc(size, "int32", site)
    stream.launch(f"fill.{site}", set_to, writes=[buffer], args=(value,))
    return buffer
