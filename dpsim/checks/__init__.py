"""The checks, one file each. A check reads the journals of a run and returns findings.

A journal is the list of ops that one rank issued. Simulated runs and runs on gloo and NCCL have the same journals, so a
check judges every backend alike.

judge.py             runs all checks on a run, sorts the findings by cause, and drops classes that are switched off
certificate.py       finds the checks that a run certainly passes, in one cheap pass
classes.py           the table of all classes of findings, one row each
finding.py           defines findings, culprits and the patterns that select classes
ledger.py            all members of a group make the same collectives in the same steps
made_groups.py       all members of a new group name the same ranks; a part of the ledger
transfers.py         a rank sends what its peer receives; a part of the ledger
apart.py             finds the first calls of a step at which sites differ; a part of the ledger
crosswise.py         finds members that make the same collectives in different orders; a part of the ledger
agreement.py         ranks make equal decisions where they have to
received.py          ranks that decide differently because other actors sent them different values; a part of agreement
agreed_result.py     whether a majority is right, if all ranks received one result; a part of agreement and the ledger
undecided.py         finds a decision that one member misspells or leaves out; a part of agreement
fault.py             no rank raised, no rank died
explained_death.py   sorts the death of a process behind the mismatch that killed it
mail.py              finds ranks that wait at a mailbox without end; a part of deadlock
stores.py            finds ranks that wait at a port or for a key without end; a part of deadlock
deadlock.py          explains a hang by the chain of waits
given_up.py          calls that an abort broke off; a part of ledger and deadlock
thread_hangs.py      finds host threads of one rank that wait for each other; a part of deadlock
alike_hangs.py       merges the findings of ranks whose threads hang alike
stream_flags.py      finds streams that wait for a flag which no host sets; a part of deadlock
recorded_again.py    finds an event that a stream records again while a host waits for it; a part of stream_flags
thread_records.py    helpers that read single records of host threads
thread_positions.py  how far a rank with several threads is in a step
livelock.py          finds ranks that loop without end and make no progress
progress.py          after the last fault, a run reaches its end within a bound of ops
nondeterminism.py    compares a run with its repetition; judge does not call it, because it needs two runs
unordered.py         reports unordered uses of host objects; judge does not call it, because journals do not show them
behind_loss.py       whether a rank may have noticed that the machine lost a process
limits.py            finds hosts that a launch queue, an allocation or a first use blocks; a part of deadlock
crossed_transfers.py finds ranks that all send first, or all receive first; a part of deadlock
running_ops.py       finds the op at the head of each stream, and a cycle of such ops
first_use.py         finds hosts that wait for peers in their first use of a communicator; a part of limits
order_inversion.py   finds device collectives that block each other; a part of deadlock
race.py              finds two unordered accesses of one memory range
floats.py            finds NaN inputs to a maximum or minimum
stale.py             finds ordered accesses of memory that does not have the expected contents
stale_replay.py      finds replays that read the input of the replay before; a part of stale
replays_at_once.py   finds replays of two graphs that use one communicator at once; an assumption, no finding
graph_lint.py        finds host effects within a capture, and collectives that are eager on some members only
leftover.py          finds results that no program awaited, and transfers without a partner
completed.py         replaces each receive from any source by the transfer that it became
run_index.py         the input of checks: the journals of a run, indexed once
expected.py          compares the outcome of a run with the expectation of a scenario
usual_step.py        the usual pattern of a step, as evidence where there is no majority
new_values.py        whether ranks received a value in a step that they received in no other step
one_step_more.py     whether ranks ended too early, or the others made one step too many; a part of sides
sides.py              of ranks that made different calls in a step, which are right; a part of the ledger
stuck.py             the collectives and transfers in which the ranks of a hang wait
blame/               decides the culprit of a run from all findings
happens_before/      rebuilds the happens-before order of a run from its journals
memory/              keeps the last accesses of each memory range
"""

from dpsim.checks.finding import Culprit, Finding, matches

__all__ = ["Culprit", "Finding", "matches"]
