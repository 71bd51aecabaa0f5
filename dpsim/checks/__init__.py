"""The checks, one file each. A check folds over the journals of a `Run`, so it judges every backend alike.

judge.py             all checks on one run, in order of cause; the classes that are switched off
certificate.py       the checks that a run certainly passes, from one cheap pass
finding.py           the findings of checks, and all classes
ledger.py            members of a group make the same collectives, in the same steps
made_groups.py       groups that members make with other members than their peers; a part of the ledger
transfers.py         a rank sends what its peer receives; a part of the ledger
apart.py             the first calls of a step at which sites differ; a part of the ledger
crosswise.py         members that make the same collectives in different orders; a part of the ledger
agreement.py         ranks made equal decisions where they have to
undecided.py         labels that one member misspells or leaves out; a part of agreement
fault.py             no rank raised, no rank died
explained_death.py   a process that ends by itself after a mismatch, which is then the cause
mail.py              ranks that wait at a mailbox without end; a part of deadlock
stores.py            ranks that wait at a port or for a key without end; a part of deadlock
deadlock.py          the chain of waits of a run that did not reach its end
given_up.py          peers that wait for a member that has aborted; a part of deadlock
thread_hangs.py      host threads of one rank that wait for each other; a part of deadlock
alike_hangs.py       one finding for ranks whose threads hang alike
stream_flags.py      streams that wait for a flag which no host sets; a part of deadlock
recorded_again.py    an event that a stream records again behind such a wait
thread_records.py    questions about single records of threads
thread_positions.py  how far a rank with threads is in a step, whatever their order
livelock.py          ranks that move without end and make no progress
progress.py          after the last fault a run reaches its end within a bound
nondeterminism.py    a repeated run is the same run; this is no check of one run, so judge does not have it
unordered.py         unordered uses by host threads; this is no check of journals, so judge does not have it
behind_loss.py       whether a rank of a lost run may have learned of the loss
limits.py            hosts that a limit of the world holds up; a part of deadlock
crossed_transfers.py ranks that all send first, or all receive first; a part of deadlock
standing.py          the heads of streams, and their cycle; for the two above and below
first_use.py         hosts that stand in their first use of a communicator; a part of limits
order_inversion.py   device collectives that block each other; a part of deadlock
race.py              two accesses of one piece of memory that nothing orders
floats.py            terms of a maximum or minimum that are no numbers
stale.py             ordered accesses of memory that no longer, or not yet, has the expected contents
stale_replay.py      replays that need fresh contents and read those of the replay before; a part of stale
graph_lint.py        captured graphs: effects that no replay repeats, members that are eager while others are not
leftover.py          unfinished ops of programs that ended: results not awaited, transfers without a partner
completed.py         the transfer that each receive from any source became
run_index.py         the input of checks: the journals of a run, indexed once
expected.py          the expectation of a scenario, and why an outcome does not meet it
usual_step.py        the usual pattern of a step, for cases without a majority
stuck.py             the op in which each rank of a hang stands
blame/               the culprit of a run, from all of its findings
happens_before/      the order of a run's accesses, rebuilt from its journals
memory/              the last accesses of each piece of memory
"""

from dpsim.checks.finding import Culprit, Finding, matches

__all__ = ["Culprit", "Finding", "matches"]
