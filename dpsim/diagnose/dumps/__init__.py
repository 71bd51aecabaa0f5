"""A hung job, explained from what torch's flight recorders kept of it.

A dump has a rank's last calls of groups: operation, sizes, types, the lines that led there, whether each is over. It
has no steps, no roots, no decisions. So other evidence counts than in a journal of dpsim.

beginning.py     whether a file is a dump
plain_pickle.py  a pickle of a stranger: plain data, or an error
entries.py       the entries of a recorder, as calls
reading.py       a folder of dumps: files, ranks, recorders
job.py           groups and lines of transfers, with the calls of their members
pace.py          whether the job still moved
partings.py      the first calls that met and differ
standings.py     who waits for whom
usual.py         what follows what in all ranks, and who departs from it
alike.py         ranks that made the same calls so far, and the one that parts from them
deciding.py      which rank is behind calls that met and differ
deciding_waits.py  which rank is behind waits
twins.py         a second pair of ranks, or a second group of a kind
peers.py         a transfer with another peer than at its place before
stacks.py        lines of threads, as Python's fault handler or py-spy writes them
beside.py        what lies beside the dumps: py-spy's stacks, logs, answers of NCCL's RAS
hosts.py         which rank that makes the cause
explanation.py   outcome, class and culprit, as records
judgement.py     outcome, class, culprit, and on what they rest
of_run.py        the same fields of a run of dpsim
text.py          in ten lines, and as JSON
"""
