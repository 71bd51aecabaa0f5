"""Traces: what a run did, in a form that every backend writes alike.

form.py          one record, one line of JSON, one way to write it; the digest
header.py        the first line: what ran, where, and how it ended
record.py        writing a trace, all or nothing
appearing.py     a file that appears under its name when it is complete
strict_json.py   JSON of strangers
read.py          reading a trace: strict, one rank at a time
schedule.py      the total order of a run without time, as a section of its trace
times.py         when ops began and ended, as a section of a trace
fold.py          a journal seen from its communicators, streams, decisions and outcomes
given_ports.py   ports that a system gave, by names that are the same in every run
difference.py    comparing two traces: where they part first, and what that probably means
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
