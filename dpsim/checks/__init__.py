"""What must hold, one file a kind. A check folds over the journals of a `Run`, so it judges every backend alike.

judge.py             all checks on one run, in order of cause; what is switched off
certificate.py       which checks a run passes for certain, told in one cheap pass
finding.py           what a check says, and the classes that there are
ledger.py            members of a group make the same collectives, in the same steps
made_groups.py       groups that members make with other members than their peers; a part of the ledger
transfers.py         what a rank sends is what its peer receives; a part of the ledger
apart.py             the first calls of a step at which sites differ; a part of the ledger
crosswise.py         members that make the same collectives in different orders; a part of the ledger
agreement.py         what ranks have to decide equally, they decided equally
undecided.py         labels that one member misspells or leaves out; a part of agreement
fault.py             no rank raised, no rank died
explained_death.py   a process that ends by itself after a mismatch, which is then the cause
mail.py              who stands at a mailbox for ever; a part of deadlock
stores.py            who stands at a port or at a key for ever; a part of deadlock
deadlock.py          who waits for whom in a run that did not come to its end
given_up.py          peers that stand where another member has aborted; a part of deadlock
thread_hangs.py      host threads of one rank that wait for each other; a part of deadlock
alike_hangs.py       one finding for ranks whose threads hang alike
stream_flags.py      streams that wait for a flag which no host sets; a part of deadlock
recorded_again.py    an event that is recorded again behind such a wait
thread_records.py    what single records of threads say
thread_positions.py  how far a rank with threads is in a step, whatever their order
livelock.py          ranks that move for ever and get nowhere
progress.py          after the last fault a run comes to its end within a bound
nondeterminism.py    a run made again is the same run; no check of one run, so not among those of judge
unordered.py         what host threads share and nothing orders; no check of journals, so not among those of judge
behind_loss.py       whether a rank of a lost run may know of the loss; its findings then do not count
limits.py            hosts that a limit of the world holds up; a part of deadlock
crossed_transfers.py ranks that all send first, or all receive first; a part of deadlock
standing.py          where devices stand, and in what circle; for the two above and below
first_use.py         hosts that stand in their first use of a communicator; a part of limits
order_inversion.py   device collectives that keep one another from starting; a part of deadlock
race.py              two accesses of one piece of memory that nothing orders
floats.py            terms of a maximum or minimum that are no numbers
stale.py             accesses in order, but of memory that is no longer, or not yet, what the op thinks
stale_replay.py      replays that read what the replay before has read, where they need fresh contents; a part of stale
graph_lint.py        captured graphs: what happens once and not in replays, who is eager where others are not
leftover.py          what programs that ended have left behind: results not awaited, transfers without a partner
completed.py         the transfer that each receive from any source turned out to be
run_index.py         what checks look at: the journals of a run, indexed once
expected.py          what a scenario expects, and why what came is not that
usual_step.py        what a step usually looks like, for where there is no majority
stuck.py             where each rank of a hang stands
blame/               the culprit of a run, from all of its findings
happens_before/      the order of a run's accesses, rebuilt from its journals
memory/              what each piece of memory saw last
"""

from dpsim.checks.finding import Culprit, Finding, matches

__all__ = ["Culprit", "Finding", "matches"]
