"""The host half of a rank: what it awaits, its threads, its host communicators and stores.

work.py            the result that a host awaits
arguments.py       the checks of the arguments of collectives and transfers
aborting.py        how a rank aborts a communicator
host_communicators.py  collectives and transfers of hosts
stores.py          ports, keys and values
threads.py         host threads of a rank, and the flags between them
"""
