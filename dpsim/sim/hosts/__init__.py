"""Host threads: how a coroutine issues ops and waits for them.

early_ends.py      untimed: which parts of collectives end before all members arrive
host.py            a host thread: what it has learned, what it has issued, how it waits
chain.py           a stream as the device sees it: a chain of ops
turn_order.py      which turns of a rank's threads come before others
uses.py            what an instruction of a program does with a variable
shared.py          Python variables that host threads share, and unordered uses of them
turns.py           a host thread that waits for its turn before each of its calls
threads.py         the host threads of a rank, of which one runs at a time
watch.py           the search for hosts that make no progress
recurrence.py      ends a run that is in the same state again
exits.py           the calls by which a program would end its process
own_state.py       state of the process that belongs to one rank, such as the working directory
sources.py         the functions by which a program learns something outside of the contract
outside.py         what the ranks of a run touched outside of the contract
record_times.py    timed: when records were written and streams ended their ops
overtime.py        ends a program that still runs after the time limit
progress.py        the bound on ops after the last fault
"""
