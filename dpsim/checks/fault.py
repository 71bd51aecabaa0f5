"""Fault: no rank raised, no rank died.

What a rank's exception or death does to its peers is the deadlock check's; here it is only stated, with the place.
"""

from __future__ import annotations

from dpsim.checks.evidence import Entry, Evidence
from dpsim.checks.finding import Culprit, Finding
from dpsim.ops import Raised


def check(evidence: Evidence) -> list[Finding]:
    """One finding for each rank that raised; for each that died while nobody was left to wait for it."""
    findings = []
    for rank, end in enumerate(evidence.run.ends):
        journal = evidence.run.journals[rank]
        if end == "raised" and journal:
            entry = Entry(rank, len(journal) - 1, journal[-1])
            record = entry.record
            message = record.message if isinstance(record, Raised) else "no record of the exception"
            where = record.where
            findings.append(
                Finding(
                    check="fault",
                    klass=f"CRASH:{record.site.upper()}",
                    message=f"rank {rank} raised {record.site} in step {record.step}: {message}",
                    culprit=Culprit(rank, record.step, record.site, where),
                    position=evidence.position(entry),
                )
            )
        elif end == "died" and "blocked" not in evidence.run.ends:
            step = evidence.reached(rank)
            last = evidence.last(rank)
            findings.append(
                Finding(
                    check="fault",
                    klass="DEATH:RANK",
                    message=f"rank {rank} died in step {step}",
                    culprit=Culprit(
                        rank, step, last.record.site if last else "start", last.record.where if last else ""
                    ),
                    position=(step, 0),
                )
            )
    return findings
