"""Traces: what a run did, in a form that every backend writes alike."""

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
