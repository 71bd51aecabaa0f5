"""A program that makes every call of the contract (`dpsim.contract.interface`) at least once and predicts each result.

Each rank knows what every other sends, so it computes every result; times and the order of two senders are not tested.
If a result differs, the rank raises an error that names the call and the sentence of the contract. All numbers are
exact in their type. Freed memory must not be reused too early; that it is reused at all is not tested.

    program.py       the program: rounds of the parts below
    basics.py        names, kernels, reads, a host that runs ahead, refused calls
    collectives.py   all collectives, on the host and on the device: reductions, roots, size vectors
    dtypes.py        all element types: each is moved, and reduced if the libraries reduce it
    streams.py       side streams, events, views, record_stream
    events.py        what a query of an event may return
    stream_flags.py  streams that wait for flags
    transfers.py     send and receive, eager and rendezvous, lone and coalesced
    made_groups.py   groups that ranks make during a run
    looks.py         what a query of a host's collective or transfer may return
    any_source.py    receives from any source
    graphs.py        captures and replays of CUDA graphs
    mail.py          mailboxes, polls, sleep
    gates.py         polls of a mailbox that return the same as in another run
    threads.py       host threads and flags
    stores.py        ports, keys and time-outs
    services.py      the program `conformance_services`: actors that are no ranks
    aborts.py        the programs `conformance_aborts` and `conformance_aborts_beside`: aborted communicators
    abort_looks.py   what a host may see of its work before, beside and after an abort
    lazy.py          communicators that are created at their first use
    ground.py        shared code: data, expectations, kernels

Worker processes import this package, so it imports only the contract, the registry and array libraries.
"""
