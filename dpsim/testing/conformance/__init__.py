"""Every call of the contract at least once, with results that a formula predicts.

Not a protocol of vLLM: the program by which a backend shows that it does what `dpsim.contract.interface` says. Each
rank knows what every other rank sends, so it can compute every result by itself. It reports at once which call gave
something else, and which sentence of the contract that breaks. All numbers are exact in their type: only averages may
be almost equal.

    program.py       the program: rounds, made of the parts below
    basics.py        names, kernels, reads, the host running ahead, what is refused
    collectives.py   all collectives, on the host and on the device: reductions, roots, size vectors
    dtypes.py        all element types: each is moved, and reduced where libraries do so
    streams.py       side streams, events, views, record_stream
    events.py        what a query of an event may answer
    stream_flags.py  streams that wait for flags
    transfers.py     send and receive, eager and rendezvous, lone and coalesced
    made_groups.py   groups that ranks make during a run
    looks.py         what a look at a host's collective or transfer may answer
    any_source.py    receives from any source
    graphs.py        captures and replays
    mail.py          mailboxes, polls, sleep
    gates.py         looks into mailboxes that find what they found in another run
    threads.py       host threads and flags
    stores.py        ports, keys and time-outs
    services.py      the program `conformance_services`: actors that are no ranks
    aborts.py        the program `conformance_aborts`: communicators that are aborted
    lazy.py          communicators that are made at their first use, in a world that has such
    ground.py        what they have in common: data, expectations, kernels

No backend shows that freed memory is reused at all (gloo never reuses it; the program requires only that it is not
reused too early). The program does not test how long anything takes, nor the order of messages from two senders.

Worker processes import this, so it needs the contract, the registry, and the libraries of arrays alone.
"""
