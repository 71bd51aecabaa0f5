"""The contract's calls on the simulated machine.

flags.py           flags between threads and streams
streams.py         streams, events and graphs
underway.py        collectives and transfers of a host that are under way
asked.py           those that a host asks for, or waits for with a time-out
communicators.py   the communicators of one rank
rank.py            a rank, as the program on its host threads sees it
life.py            the life of a rank, and its death
"""
