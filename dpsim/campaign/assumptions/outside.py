"""Outside: rows of the table of assumptions about what a program learns besides the contract.

Each of these words has the lines of the program: "no clock decides what a rank does (read at job.py:7)".
"""

from __future__ import annotations

from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.row import Assumption, Section, Statement


def _named(kind: str, words: str, how: str) -> tuple[Statement, ...]:
    """Returns the words of a proof if a rank touched something of this kind, with the places."""

    def exact(on: Facts) -> str:
        return f"{words} ({how} at {on.touched(kind)})"

    return (Statement(words, lambda on: bool(on.touched(kind)), exact),)


OUTSIDE = Section(
    "What a program learns outside of the contract",
    (
        Assumption(
            "run on clocks that differ, or jump",
            "no: ranks read the clock of this machine. In repeated runs it jumps by an hour at each read, and a rank "
            "that then makes other calls is a finding",
            "",
            _named("clock", "no clock decides what a rank does", "read"),
        ),
        Assumption(
            "give each process other random numbers of the system (`os.urandom`, `secrets`, `uuid4`)",
            "always other ones in each run; a rank that makes other calls in a repeated run is a finding",
            "",
            _named("entropy", "no random number of the system decides what a rank does", "drawn"),
        ),
        Assumption(
            "run each rank on a machine with other files, which other processes and earlier runs change",
            "no: ranks share the files of this machine, and use them in the order of the schedule",
            "",
            _named("file", "no other process changes the files of a rank", "used"),
        ),
        Assumption(
            "end a child process at any time",
            "no: a child runs beside the simulation, as fast as this machine lets it",
            "",
            _named("process", "no child process decides what a rank does", "started"),
        ),
        Assumption(
            "run a thread of Python at any time (a host thread of the contract is none)",
            "no: it runs beside the simulation, in the order that this machine happens to choose",
            "",
            _named("thread", "no order of Python's threads decides what a rank does", "started"),
        ),
        Assumption(
            "bring or break a connection that is none of the contract, at any time",
            "no: it is a connection of this machine",
            "",
            _named("network", "no other connection decides what a rank does", "opened"),
        ),
        Assumption(
            "keep by process: the working directory, the umask, the limit of recursion, the generators of `random` and "
            "`numpy.random`, the context of `decimal`, numpy's settings",
            "always: each rank has its own",
        ),
        Assumption(
            "keep further settings by process, such as handlers of signals, the locale or limits of resources",
            "no: all ranks share them",
            "",
            _named("setting", "no setting of the process reaches another rank", "changed"),
        ),
    ),
)
