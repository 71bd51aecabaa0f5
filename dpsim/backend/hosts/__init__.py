"""The host half of a rank: what it awaits, its threads, its host communicators and stores.

work.py            the result that a host awaits
works.py           results that say more than what came
arguments.py       the checks of memory, roots and peers of collectives and transfers
collective_methods.py  the methods of collectives, from their files
aborting.py        how a rank aborts a communicator
host_communicators.py  collectives and transfers of hosts
making.py          how a rank makes a communicator during a run
stores.py          ports, keys and values
threads.py         host threads of a rank, and the flags between them
"""
