"""The recorder: it writes the torch.distributed calls of an unmodified job to disk while the job runs, one file per
rank.

    dpsim record -o FOLDER -- torchrun --nproc-per-node 4 train.py
    dpsim explain FOLDER

hook/          Python imports it as it starts, and it starts the recorder
installing.py  the methods of torch's process group, with a record before and after each
beginning.py   the process and its groups, before the first call
measures.py    the elements that a call moves, from its arguments
places.py      the user's lines
recorder.py    records, groups and texts of a process
ring.py        the file
watching.py    whether the process is alive, where it is, and how it ended

A recorded job makes the same library calls as an unrecorded one. The recorder replaces methods of torch's own class, so
each group keeps its type: torch batches transfers only for groups of exactly that type. It writes a record before the
call. It adds the end time when the call, or the wait for its Work, has returned.

Prior art: torch's flight recorder. It records calls from C++ as well, but no roots, reductions, steps or decisions.
"""
