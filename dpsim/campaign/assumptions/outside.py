"""Outside: rows of the table of assumptions about what a program learns besides the contract.

Each of these words has the lines of the program: "no clock decides what a rank does (read at job.py:7)".
"""

from __future__ import annotations

from itertools import starmap

from dpsim.campaign.assumptions.facts import Facts
from dpsim.campaign.assumptions.row import Assumption, Section, Statement

TABLE = (
    (
        "clock",
        "run on clocks that differ, or jump",
        "no: ranks read the clock of this machine. In repeated runs it jumps by an hour at each read, "
        "and a rank that then makes other calls is a finding",
        "no clock decides what a rank does",
        "read",
    ),
    (
        "sleep",
        "let a rank sleep by a clock (`time.sleep`) for longer than a time-out of another rank",
        "no: such a sleep takes no time in the simulation. Use `rank.sleep`",
        "no other sleep outlasts a time-out",
        "slept",
    ),
    (
        "entropy",
        "give each process other random numbers of the system (`os.urandom`, `secrets`, `uuid4`), and its own number "
        "(`os.getpid`)",
        "always other ones in each run; a rank that makes other calls in a repeated run is a finding",
        "no random number of the system decides what a rank does",
        "drawn",
    ),
    (
        "file",
        "run each rank on a machine with other files, which other processes and earlier runs change",
        "no: ranks share the files of this machine, and use them in the order of the schedule",
        "no other process changes the files of a rank",
        "used",
    ),
    (
        "process",
        "end a child process at any time",
        "no: a child runs beside the simulation, as fast as this machine lets it",
        "no child process decides what a rank does",
        "started",
    ),
    (
        "thread",
        "run a thread of Python at any time (a host thread of the contract is none)",
        "no: it runs beside the simulation, in the order that this machine happens to choose",
        "no order of Python's threads decides what a rank does",
        "started or counted",
    ),
    (
        "network",
        "bring or break a connection that is none of the contract, at any time",
        "no: it is a connection of this machine",
        "no other connection decides what a rank does",
        "opened",
    ),
    (
        "setting",
        "keep further settings by process, such as handlers of signals, the locale or limits of resources",
        "no: all ranks share them",
        "no setting of the process reaches another rank",
        "changed",
    ),
)
"""For each kind of source (`dpsim.sim.hosts.sources`): what hardware may do, and what the simulation does. Then
follow the words of a proof whose ranks touched such a source, and what they did there.
"""


def _row(kind: str, may: str, does: str, words: str, did: str) -> Assumption:
    def exact(on: Facts) -> str:
        return f"{words} ({did} at {on.touched(kind)})"

    return Assumption(may, does, "", (Statement(words, lambda on: bool(on.touched(kind)), exact),))


OUTSIDE = Section(
    "What a program learns outside of the contract",
    (
        *starmap(_row, TABLE),
        Assumption(
            "keep by process: the working directory, the umask, the limit of recursion, the generators of `random` and "
            "`numpy.random`, the context of `decimal`, numpy's settings",
            "always: each rank has its own",
        ),
    ),
)
