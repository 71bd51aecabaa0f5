"""What every backend shares: addresses, records, injections, and the public half of each class of the contract.

    call_site.py       where in the source an op was issued, found once a place
    journal.py         a rank's journal, and the gate through which all its ops go: addresses, faults, delays
    arguments.py       what the contract asks of the arguments of a collective or transfer
    work.py            what a host awaits
    buffers.py         device memory as journals name it: buffers and their views
    kernel_call.py     a kernel with what it is called with
    streams.py         streams and events
    communicators.py   host and device communicators of a rank
    rank.py            the rank itself

What a backend adds is how an op is started: it inherits from these classes, as `dpsim.sim` and `real` do.
"""
