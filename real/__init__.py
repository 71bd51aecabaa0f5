"""The backends on torch.distributed: they run the same programs as the simulation on real processes, with gloo on CPUs
and NCCL on GPUs.

    backend.py         GlooBackend and NcclBackend, what the entry points name
    pool.py            the parent: a worker process for each rank or service, kept warm, replaced after a hang
    crew.py            the parent: those processes: how they start, leave, and are kept in reserve
    spent.py           the parent: where the time of a pool went
    store.py           the parent: where communicators meet, on the loopback interface
    folder.py          the parent: where sockets and journals are, removed also after a kill
    child.py           the parent: a worker process as it is seen from there
    fork_server.py     a process with torch that does nothing but fork: each worker is a copy of it
    watch.py           the parent: whether the ranks move, and how each rank ended
    clock.py           the parent: a clock that stands while it was stopped
    quiet.py           the parent: how long the workers slept, load of the machine left out
    messages.py        what the two sides say to one another
    jobs.py            the child: what it makes of a job
    worker.py          the child: runs the coroutine of its rank with one `send(None)`
    rank.py            the contract on torch: ranks and buffers
    reaching.py        which steps the program of a rank sets
    belongings.py      what a process has for a rank
    host_calls.py      its communicators on the host
    threads.py         a rank of several host threads: how they live, wait and are stopped
    issuing.py         what makes each of their calls one step, and gives each its journal
    flags.py           the flags between them
    turns.py           in which order they go on, at the gates of another run
    holding.py         events that are held up at a gate
    mail.py            mailboxes: a UNIX socket a rank
    taking.py          how a rank looks into them
    stores.py          stores of programs, as their ranks have them
    store_server.py    the table behind a socket, served by a thread of its listener; who is let in
    ports.py           the ports of nodes, on the loopback interface; strangers
    making.py          groups that ranks make during a job
    lazy.py            communicators that are made at their first use
    no_device.py       what a service has in the place of a device
    cpu.py             the device of gloo: streams are threads; its graphs: calls that are issued again
    cpu_streams.py     these, with events and buffers
    cuda.py            the device of NCCL
    cuda_calls.py      what its ops need of torch, and pinned memory that reads use again
    cuda_errors.py     which of CUDA's errors are about a capture
    cuda_streams.py    its streams, events and buffers
    cuda_groups.py     its communicators
    cuda_order.py      what a point of a stream lies behind, and what an abort breaks off
    cuda_flags.py      flags, as its streams see them
    cuda_fused.py      of these, what a program does most often, in one function an op
    cuda_graphs.py     its graphs
    communicators.py   torch's process groups: made directly, cached, abandoned
    calls.py           what the collectives of both libraries have in common
    gloo_calls.py      collectives and transfers over gloo
    nccl_calls.py      and over NCCL
    waiting.py         how a host waits, and how it is made to give up
    abandoned.py       works of gloo that are waited for until they are given up
    matched.py         whether anything of a job may be left on its communicators
    journal_file.py    a journal, as its rank writes it: a mapped file
    chain_file.py      the calls that led to its ops, beside it
    journal_reader.py  and as the parent reads it, also while the rank is stuck or dead
    record/            the recorder: calls of a job that was never written for dpsim

To import a module of this package does not import torch; to use it does. The package imports `dpsim.contract` and
`dpsim.backend`; `dpsim` imports nothing of this package.
"""

from dpsim.backend.journal.call_site import own_code

own_code(__name__, "torch")
