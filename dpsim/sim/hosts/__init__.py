"""Host threads: how a coroutine issues ops and waits.

early_ends.py      the parts of collectives that end early, without time
host.py            a host thread: what it has learned, what it has issued, how it waits
chain.py           a stream as the device sees it: a chain of ops
turn_order.py      which turns of a rank's threads come before others
uses.py            what an instruction of a program does with a variable
shared.py          what host threads share, and which of its uses nothing orders
turns.py           a host thread that stops before each of its calls
threads.py         the host threads of a rank, of which one runs at a time
watch.py           the search for hosts that make no progress
exits.py           the calls by which a program would end its process
variables.py       the variables of the process, as they were before a run
record_times.py    when records were written and streams ended their ops, where there is time
overtime.py        the end of a program that runs on when the time is up
progress.py        the bound on ops after the last fault
"""
