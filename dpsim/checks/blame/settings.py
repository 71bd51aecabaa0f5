"""Settings of single ranks: a finding about a difference between ranks mentions the settings in which these ranks
differ.

    ranks of dp_cpu differ in plan in step 0; rank 1 alone has enable_dbo true (config: false)

A scenario may give single ranks different settings (`World.own_settings`). The pass only adds these to the message. It
blames no rank for them, because the setting of the single rank may be the right one.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.checks.finding import Finding, also, fact, matches
from dpsim.checks.run_index import RunIndex

OF_DIFFERENCES = ("MISMATCH", "DISAGREEMENT", "HANG:COLLECTIVE")


def with_settings(run_index: RunIndex, findings: list[Finding]) -> list[Finding]:
    """Returns the findings. Messages about a difference between ranks name the settings of single ranks."""
    own = run_index.world.own_settings
    facts = [fact("alone_has", ranks=ranks, setting=what) for what, ranks in own]
    return [replace(one, message=also(one.message, *facts)) if facts and _differs(one) else one for one in findings]


def _differs(finding: Finding) -> bool:
    return any(matches(finding.klass, klass) for klass in OF_DIFFERENCES)
