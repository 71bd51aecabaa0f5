"""The explanation of a hung job from the dumps of torch's flight recorders.

A dump has a rank's last calls on groups: operation, sizes, types, the lines that led there, and whether each is over.
It has no steps, no roots and no decisions. So other evidence counts than in a journal of dpsim.

beginning.py     whether a file is a dump
plain_pickle.py  a pickle of a stranger: plain data, or an error
entries.py       the entries of a recorder, as calls
reading.py       a folder of dumps: files, ranks, recorders
job.py           groups and lines of transfers, with the calls of their members
pace.py          whether the job still moved
partings.py      the first different calls that met
standings.py     the calls in which ranks stand, and the ranks that they wait for
usual.py         the usual order of calls in all ranks, and departures from it
alike.py         ranks that made the same calls so far, and the one that departs from them
deciding.py      the culprit of different calls that met
deciding_waits.py  the culprit of waits
twins.py         a second pair of ranks, or a second group of a kind
peers.py         a transfer with another peer than at its place before
stacks.py        lines of threads, as Python's fault handler or py-spy writes them
beside.py        other evidence: py-spy's stacks, logs, answers of NCCL's RAS
hosts.py         the culprit by this other evidence
explanation.py   outcome, class and culprit, as records
judgement.py     outcome, class, culprit, and their evidence
of_run.py        the same fields of a run of dpsim
text.py          in ten lines, and as JSON
"""
