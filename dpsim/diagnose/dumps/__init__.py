"""Dumps: explains a hung torch job by the dumps of torch's flight recorders, one for each rank.

A flight recorder keeps a rank's last calls in a ring buffer. For each call, a dump contains the operation, sizes,
types, the source lines, and whether the call is over. It has no steps, no roots and no decisions. So this package uses
other evidence than the checks, which read journals of dpsim.

beginning.py     recognizes a dump by its first bytes
plain_pickle.py  reads a pickle from an unknown source safely
own_lines.py     decides which source files are the program's own
entries.py       turns the entries of a recorder into calls
wrong_names.py   refuses files whose name ends with the rank of another process
gaps.py          finds what a folder of dumps lacks
reading.py       reads a folder of dumps
job.py           combines the dumps into groups and transfers between ranks
pace.py          decides whether the job still moved when it was dumped
partings.py      finds the first calls that paired up although they differ
blocked_ranks.py the calls in which ranks are blocked, and the ranks that they wait for
usual.py         the usual order of calls on all ranks, and departures from it
alike.py         finds the one rank that departs from ranks with the same calls so far
deciding.py      decides the culprit if calls differ
deciding_waits.py  decides the culprit if all calls agree and ranks wait
missing_dumps.py  decides the culprit if ranks wait and a rank left no dump
twins.py         compares a pair of ranks or a group with a second one that does the same
peers.py         finds a transfer whose peer is not the usual one of its source line
stacks.py        reads stacks of threads, as Python's fault handler or py-spy writes them
beside.py        reads other evidence: py-spy's stacks, logs, answers of NCCL's RAS
hosts.py         decides the culprit by this other evidence
explanation.py   defines the result: outcome, class, culprit and evidence
judgement.py     judges a job with all of these modules
of_run.py        gives the same result for a run of dpsim
text.py          prints the result in ten lines, or as JSON
"""
