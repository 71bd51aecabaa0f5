"""The backends on torch.distributed: they run the same programs as the simulation on real processes, with gloo on CPUs
and NCCL on GPUs.

    backend.py         GlooBackend and NcclBackend, to which the entry points refer
    pool.py            the parent: a worker process for each rank or service, reused, replaced after a hang
    crew.py            the parent: how worker processes start, leave, and wait in reserve
    spent.py           the parent: where the time of a pool went
    store.py           the parent: the store on which communicators meet, on the loopback interface
    folder.py          the parent: the folder of sockets and journals, removed even after a kill
    child.py           the parent: a worker process as the parent sees it
    fork_server.py     a process that has imported torch and only forks: each worker is a copy of it
    watch.py           the parent: whether the ranks make progress, and how each rank ended
    clock.py           the parent: a clock that does not advance while the process is stopped
    quiet.py           the parent: how long the workers slept, whatever the load of the machine
    messages.py        the messages between parent and workers
    jobs.py            the child: how it finds the program of a job
    worker.py          the child: runs the coroutine of its rank with one `send(None)`
    rank.py            the contract on torch: ranks and buffers
    reaching.py        reports the step tags that a program sets
    belongings.py      the objects of a process for a rank
    host_calls.py      host communicators of a rank
    threads.py         a rank of several host threads: how they run, wait and end
    issuing.py         makes each call of these threads one step, and gives each thread its journal
    flags.py           the flags between these threads
    pauses.py          drawn sleeps before each call
    turns.py           orders these threads as in another run, at its gates
    holding.py         events that wait at a gate
    mail.py            mailboxes: one UNIX socket per rank
    taking.py          how a rank reads a mailbox
    stores.py          stores of programs, as ranks use them
    store_server.py    the table behind a socket, served by a thread of its listener
    ports.py           the ports of nodes, on the loopback interface; strangers
    making.py          groups that ranks make during a job
    lazy.py            communicators with a rendezvous at their first use
    no_device.py       the missing device of a service
    cpu.py             the device of gloo: streams are threads, and graphs issue their calls again
    cpu_streams.py     streams, events and buffers of that device
    cuda.py            the device of NCCL
    cuda_calls.py      the torch functions that its ops call, and pinned memory for reads
    cuda_errors.py     which CUDA errors concern a capture
    cuda_streams.py    its streams, events and buffers
    cuda_groups.py     its communicators
    cuda_order.py      which operations come before a point of a stream, and which an abort ends
    cuda_flags.py      flags, as its streams poll them
    cuda_fused.py      the most frequent of its ops, each in one function
    cuda_graphs.py     its graphs
    communicators.py   torch's process groups: created directly, cached, abandoned
    calls.py           what collectives of gloo and NCCL have in common
    gloo_calls.py      collectives and transfers over gloo
    nccl_calls.py      collectives and transfers over NCCL
    waiting.py         how a host waits, and how the parent ends a wait
    unmodified.py      runs unmodified programs of torch.distributed, as torchrun does
    unmodified_rank.py a rank of such a program, in a process of its own
    abandoned.py       works of gloo that may never end
    matched.py         whether a job left data on its communicators
    journal_file.py    a journal, as a rank writes it: a mapped file
    chain_file.py      the calls that led to its ops, in a second file
    journal_reader.py  a journal, as the parent reads it, even while the rank is stuck or dead
    record/            the recorder: calls of a job that was not written for dpsim

To import a module of this package does not import torch; to use it does. The package imports `dpsim.contract` and
`dpsim.backend`; `dpsim` imports nothing of this package.
"""

from dpsim.backend.journal.call_site import own_code

own_code(__name__, "torch")
