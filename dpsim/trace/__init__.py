"""Traces: a run in a file, in a form that every backend writes alike.

form.py          one record as one line of JSON; the digest
header.py        the first line: what ran, on which backend, and the verdict
record.py        writes a trace
appearing.py     a file that appears under its name only when it is complete
strict_json.py   reads JSON that may come from a stranger
read.py          reads a trace and checks it, one rank at a time
schedule.py      the schedule of an explored run, as a section of its trace
times.py         when ops began and ended, as a section of a trace
fold.py          splits a journal into the sequences of communicators, streams, threads, decisions
given_ports.py   replaces ports that the system chose by names that are the same in every run
difference.py    compares two traces: the first difference, and what it probably means
"""

from dpsim.trace.difference import Difference, compare, scenario_changes
from dpsim.trace.form import TraceError, digest
from dpsim.trace.read import Trace, read_trace
from dpsim.trace.record import check_writable, write_trace
from dpsim.trace.schedule import Schedule

__all__ = [
    "Difference",
    "Schedule",
    "Trace",
    "TraceError",
    "check_writable",
    "compare",
    "digest",
    "read_trace",
    "scenario_changes",
    "write_trace",
]
