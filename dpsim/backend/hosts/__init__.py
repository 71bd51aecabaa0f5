"""The host calls of a rank: awaited results, threads, host communicators and stores.

work.py            the object that a program awaits
works.py           the same for calls that a program can also query
arguments.py       the checks of memory, roots and peers of collectives and transfers
collective_methods.py  the methods of collectives, from their files
aborting.py        how a rank aborts a communicator
host_communicators.py  collectives and transfers of hosts
making.py          how a rank makes a communicator during a run
stores.py          ports, keys and values
threads.py         host threads of a rank, and the flags between them
"""
