"""Of repeats: the sentences about runs that dpsim repeats, with a repair or without, or that run a rank alone."""

from __future__ import annotations

_DIFFERS = "rank {rank} acts differently in step {step} "

SENTENCES = {
    "repeated_run_differs": _DIFFERS + "when dpsim repeats the run with the same schedule",
    "differs_with_another": _DIFFERS + "with another {differs}",
    "alone_differs": "rank {rank} in step {step} acts differently when no other rank runs in its process",
    "schedule_does_not_fit": "the schedule of a run does not fit the run made again: {why}",
    "not_repeated": "a schedule could not be repeated: {why}",
    "unseeded": "{rank:if rank *|a rank}{step:if  in step *} uses {generator}, which has no seed; a repeated run had "
    "the same records, but another one may differ",
    "generator_of": "the generator of {module}",
    "without_seed": "{culprit} without a seed",
    "only_if_differs": "only if {differs} differs between ranks",
    "did_first": "first:   {did}",
    "did_again": "again:   {did}",
    "did_with_others": "with the others: {did}",
    "did_alone": "alone:           {did}",
    "did": "{call}{outcome:if  *} at {call.site}[{call.ordinal}]{call.where:if , *}",
    "did_nothing_more": "nothing more",
    "program_ended": "the program ends",
    "program_raised": "the program raises {error.site}: {message}, {error.where}",
    "shared": "shared: {names}",
    "likely_causes": "likely causes: random numbers without a seed, a clock, the order of a set, id() or hash() of an "
    "object;",
    "may_outlive_run": "state that outlives a run: on a class, in a module, in a default argument",
    "may_be_shared": "state that ranks share, in self or in what prepare made: made again, each rank has its own, as "
    "in a process",
    "one_process": "the simulation runs all ranks in one Python process, and hardware runs each in its own. Likely "
    "causes:",
    "may_leave_something": "a rank leaves something in a module, a class, a default argument or os.environ, and "
    "another one reads it;",
    "may_decide_by_process": "a rank decides by os.getpid(), by hash() of text, by id(), or by the order of a set",
    "send_what_to_agree_on": "send what ranks have to agree on through a communicator, a mailbox or a store",
    "cause_may_be": "the cause may be: {read}",
    "touched": "rank {rank} {does} at {where}",
    "reads_clock": "reads a clock",
    "sleeps": "sleeps by a clock",
    "draws_of_system": "draws random numbers of the system",
    "uses_file": "uses a file",
    "starts_process": "starts a process",
    "uses_threads": "starts or counts threads of Python",
    "opens_connection": "opens a connection",
    "changes_setting": "changes a setting of the process",
    "with_call": "with {op} {site} made by rank {rank} in step {step}",
    "without_call": "without {call} of rank {rank}",
    "with_arguments": "with {given:join  and } in {call} of rank {rank}",
    "repaired": "{ways}, {left:if then values differ: *|the run holds}",
    "repaired_either": "{ways:join , or }, the run holds{left:if  or * is next}: a change of either side helps",
}
