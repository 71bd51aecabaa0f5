"""Runs each rank once more alone in a process, to find Python state that ranks share.

    past.py       what the awaits of a rank returned in a run, and its records
    messages.py   the messages between dpsim's process and the server
    communicators.py  communicators without peers
    machine.py    streams, buffers and the other objects of a rank: they only write the journal
    answers.py    the run of one rank alone: answers its awaits and compares its records
    digest.py     the contents of a module in words, for a comparison of two processes
    server.py     a fresh interpreter that forks a process for each rank
    client.py     the server as seen by dpsim's process: starts it and sends jobs

In the simulation, ranks can agree through a module variable, a class or `os.environ`, although real ranks have separate
processes. So dpsim repeats a run rank by rank (`dpsim.campaign.lone_ranks`), each in a copy of the server. Its awaits
return the values of the first run. A rank that shares nothing with other ranks writes the same journal again.
"""

from dpsim.backend.journal.call_site import own_code

own_code(__name__, "greenlet")
