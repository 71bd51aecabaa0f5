"""What every backend shares: addresses, records, injections, and the public half of each class of the contract.

    journal.py         the gate of every op: its address, its record, what the scenario makes of it
    injection.py       faults and delays of one rank, by address
    planted.py         what a journal makes of them
    issue.py           what goes out on a communicator
    call_site.py       where in the source an op was issued, and whose code is whose
    arguments.py       what the contract asks of the arguments of collectives and transfers
    plain.py           what it asks of messages, decisions, arguments of kernels, and of numbers
    misuse.py          what is said of mistakes that Python has words of its own for
    rank.py            ranks and mailboxes
    streams.py         streams and events
    buffers.py         device memory and its views
    communicators.py   device communicators
    host_communicators.py  and those of hosts
    aborting.py        what both have in common: to be given up
    kernel_call.py     a kernel as it was launched
    graphs.py          captured graphs and their replays:
    capture.py         a capture under way, what it keeps and what it forbids
    branches.py        the streams of a capture
    graph_records.py   what the journal has of captures and replays
    holdings.py        what it has of its graph's pool
    replaying.py       what these calls are made of
    kept.py            the calls that it has kept
    pools.py           the memory of graphs
    stores.py          where ranks find one another: ports, keys and values
    threads.py         host threads of a rank, and the flags between them
    work.py            what a host awaits
    whereabouts.py     where every rank stands
    trouble.py         what the machine takes away, which is no verdict

A backend subclasses the classes of the contract and adds how to run a kernel, copy a buffer, or start a collective
that has been journaled. So an op has the same address, record and injected faults everywhere.
"""
