"""Journals: the address of every op, its record, and the faults that a scenario plants.

issue.py           a call as the backend carries it out on a communicator
call_site.py       the place in the source where a program issues an op
elsewhere.py       places and errors of a program that runs in another process
instructions.py    the instructions of a function, in the same words for each Python
misuse.py          messages for mistakes that Python itself reports
own_raise.py       exceptions of a program, and those that end the run
plain.py           the checks of messages, decisions, arguments of kernels, and numbers
injection.py       faults and delays of one rank, by address
fault_injector.py  the records of faults and delays
graph_records.py   the records of captures and replays
journal.py         the object through which each op passes: address, record, faults
repetition.py      the ops by which a rank repeats itself and makes no progress
whereabouts.py     the op at which each rank is
trouble.py         failures of the machine itself, which are no verdict
"""
