"""The recorder: what each rank of an unmodified job calls, on disk while it runs.

    dpsim record -o FOLDER -- torchrun --nproc-per-node 4 train.py
    dpsim explain FOLDER

hook/          what Python imports as it starts: the recorder begins where the environment asks for it
installing.py  the methods of torch's process group, with a record before and after each
beginning.py   the process and its groups, before the first call
measures.py    what a call moves, by its arguments
places.py      the user's lines
recorder.py    records, groups and texts of a process
ring.py        the file
watching.py    that the process lives, where it stands, and how it ended

A recorded job makes the same calls of its libraries as a plain one. The methods of torch's own class are replaced, so
each group keeps its type: torch batches transfers for groups of exactly that type. A record comes before the call, and
the time of its return is stored when the call, or the wait for its Work, is over.

Prior art: torch's flight recorder, which sees the calls of C++ and no roots, reductions, steps or decisions.
"""
