"""The calls that led a rank to its lines, in a file beside its journal. The parent reads it even if the rank is stuck
or dead.

    file = ChainFile("/tmp/journal-0")
    ...                                     # the program runs: each place that is new to the process is a line of JSON
    read_chains(Path("/tmp/journal-0"))     # {"app/step.py:88": (("agree", "app/step.py:88"), ...)}

A process that is kept warm does not repeat what it wrote beside the journal of an earlier job: the parent adds up. A
chain that cannot be written is missing in reports, and nothing else is.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from dpsim.backend.journal.call_site import tell_chain
from dpsim.contract.chain import Chain


def _beside(journal: str) -> Path:
    return Path(f"{journal}.chains")


class ChainFile:
    """The writing end, for as long as a job runs."""

    def __init__(self, journal: str) -> None:
        self._path = _beside(journal)
        tell_chain.append(self._write)

    def _write(self, place: str, chain: Chain) -> None:
        with suppress(OSError), self._path.open("a") as file:
            file.write(json.dumps([place, chain]) + "\n")

    def close(self) -> None:
        """Nothing more is written."""
        tell_chain.remove(self._write)


def read_chains(journal: Path) -> dict[str, Chain]:
    """What a rank wrote so far. A line that it did not end is left out."""
    found: dict[str, Chain] = {}
    with suppress(OSError):
        for line in _beside(str(journal)).read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                place, chain = json.loads(line)
                found[place] = tuple((function, where) for function, where in chain)
    return found
