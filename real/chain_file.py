"""The chains of calls that led a rank to its lines, in a file beside its journal. The parent can read it even if the
rank is stuck or dead.

    file = ChainFile("/tmp/journal-0")
    ...                                     # the program runs: each new place of the process adds a line of JSON
    read_chains(Path("/tmp/journal-0"))     # {"app/step.py:88": (("agree", "app/step.py:88"), ...)}

A worker that runs several jobs writes each chain of calls once, so the parent keeps the chains of earlier jobs. If the
worker cannot write a chain, reports lack it, and nothing else changes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from dpsim.backend.journal.call_site import chain_listeners
from dpsim.contract.chain import Chain


def _beside(journal: str) -> Path:
    return Path(f"{journal}.chains")


class ChainFile:
    """The writing end, for the duration of a job."""

    def __init__(self, journal: str) -> None:
        self._path = _beside(journal)
        chain_listeners.append(self._write)

    def _write(self, place: str, chain: Chain) -> None:
        with suppress(OSError), self._path.open("a") as file:
            file.write(json.dumps([place, chain]) + "\n")

    def close(self) -> None:
        """Ends writing."""
        chain_listeners.remove(self._write)


def read_chains(journal: Path) -> dict[str, Chain]:
    """Returns the chains that a rank has written so far, without an incomplete last line."""
    found: dict[str, Chain] = {}
    with suppress(OSError):
        for line in _beside(str(journal)).read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                place, chain = json.loads(line)
                found[place] = tuple((function, where) for function, where in chain)
    return found
