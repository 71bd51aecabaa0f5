"""Each rank runs once more alone, in its own process: what ranks share in Python shows as a difference.

    past.py       what a rank has learned and done in a run
    messages.py   what the parent and the server say to each other
    communicators.py  communicators whose peers are not there
    machine.py    streams and buffers that do nothing but journal, and the rank that has all of these
    answers.py    the run of one rank, answered from its past and compared with it
    digest.py     what a module holds, by name, to be compared with a fresh interpreter
    server.py     a fresh interpreter that forks a process for each rank
    client.py     the server, as the parent sees it

In the simulation the Python of all ranks runs in one interpreter. Ranks can agree there through a module, a class or
`os.environ`, and no hardware lets them. So a run that holds is made again, rank by rank. The server imports the module
of the program and forks. In the copy only one rank runs, and its awaits return what they returned before. A rank that
shares nothing writes the same journal.
"""

from dpsim.backend.journal.call_site import own_code

own_code(__name__, "greenlet")
