"""Sentences: all rows of the tables, by the name of the fact. `template` says how a row is filled."""

from __future__ import annotations

from dpsim.diagnose.words import of_ends, of_hosts, of_memory, of_repeats, of_threads, of_values

GENERAL = {
    "also": "{parts:join ; }",
    "indented": "  {part}",
    "seen": "seen: {seen}",
    "fails_with_it": "with it, {klass}: {message}",
    "side": "{ranks:ranks}{step:if  in step *}: {calls}",
}

_TABLES = (of_ends, of_hosts, of_memory, of_repeats, of_threads, of_values)

SENTENCES: dict[str, str] = GENERAL | {name: row for table in _TABLES for name, row in table.SENTENCES.items()}

SHORT: dict[str, str] = {**of_ends.SHORT, **of_memory.SHORT, **of_values.SHORT}
"""The sentences that a first screen prints instead, because other lines of it say the rest."""
