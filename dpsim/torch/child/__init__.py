"""The processes of ranks: all code that imports torch. dpsim starts them and imports none of it.

the module itself  the warm parent, which forks them (`python -m dpsim.torch.child`)
rank.py            what a child does: it becomes a rank, runs the user's program, and says how that ended
pipe.py            the socket to dpsim
threads.py         threads that Python starts, of which one runs at a time
locks.py           locks of these
queues.py          queues, events and semaphores of these
imports.py         modules that a rank imported
frames.py          the user's lines: sites, places and chains of calls
loops.py           steps, from the loops of the user's program
installed.py       torch.distributed with dpsim's groups and stores
groups.py          a process group, whose calls go to dpsim
rooted.py          gather and scatter of it
pieces.py          tensors as bytes, and back
pickled.py         tensors in pickles
reductions.py      reductions that a rank computes itself
works.py           what a call gives: Work and its future
timeouts.py        time-outs of groups and waits
stores.py          stores
clocks.py          time
files.py           files that a rank wrote
drawn.py           random numbers and names
uncovered.py       what raises by name
"""
