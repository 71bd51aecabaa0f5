"""The code of the warm parent and of its children, the processes of ranks. Only this package imports torch.

dpsim's own process starts `python -m dpsim.torch.child` and imports none of these modules. A child patches
torch.distributed, threads, time and random numbers before it runs the user's program.

    the module itself  the warm parent: imports torch, and forks the children
    rank.py            the main function of a child: sets up a rank, runs the user's program, and reports how it ended
    pipe.py            sends messages to dpsim and reads the answers
    threads.py         threads that Python starts: dpsim schedules them, one at a time
    locks.py           `threading.Lock` and `RLock` for these threads
    queues.py          queues, conditions, events, semaphores and futures for these threads
    imports.py         finds the modules that a rank has imported
    frames.py          finds the user's line of a call: its site, place and chain of calls
    loops.py           infers steps from the loops of the user's program
    installed.py       patches torch.distributed with dpsim's groups and stores
    groups.py          a process group that sends its calls to dpsim
    rooted.py          gather and scatter of that group
    pieces.py          turns tensors into bytes, and back
    pickled.py         makes pickles of tensors equal in each run
    reductions.py      the names of torch's reductions, and torch's errors for their element types
    works.py           the Work of an asynchronous call, and its future
    in_flight.py       finds a tensor that the program changes between a call and its wait
    timeouts.py        time-outs of groups and waits
    stores.py          TCPStore, FileStore and PrefixStore
    clocks.py          the clock of a rank
    files.py           finds the files that a rank wrote
    drawn.py           seeds random numbers, and fixes process ids
    outside.py         tells dpsim which lines read a clock or entropy
    unbound.py         a function that replaces a builtin
    uncovered.py       the errors for what dpsim does not simulate
"""
