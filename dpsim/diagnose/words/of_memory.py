"""Of memory: the sentences about races, stale memory and graphs. `SHORT` has those of a first screen."""

from __future__ import annotations

_ACCESS = "{how}s {buffer} on stream {stream}{where:if  at *}{inside}"
_RACE = "rank {rank}: {first} and {second} touch {what} in no order"

_OP = "rank {rank}, step {call.step}: {call.site}[{call.ordinal}] ({call}) "
_IN_STEP = " in step {step}{where:if  at *}"
_UNPAIRED = "{call.site} ({call}) is unpaired in step {call.step}"

SENTENCES = {
    "access": "rank {rank}, step {step}: {op}{call:if  (*)}{kernel:if  (*)} " + _ACCESS,
    "inside": ", in {replay}{branch}",
    "branch": " ({name}: what {graph} captured on stream {stream})",
    "touch": "{how} {op} on stream {stream}",
    "race": _RACE + "; {cure}{more}",
    "memory_in_use": "the memory of {buffer}, which may be given to {new},",
    "more_like_it": " (and {more} more like it, on {ranks:count rank})",
    "to_order": "to order them: {cure}",
    "use_two_groups": "transfers of one coalesced group have no order; use two groups, or memory that does not overlap",
    "wait_in_capture": "in the capture of graph {graph}, stream {waits} must wait for an event recorded on stream "
    "{marked} after {after}",
    "wait_for_event": "stream {waits} must wait for an event recorded on stream {marked} after {after}"
    "{before:if , before *}",
    "other_order": "or the other way round: stream {waits} must wait for one recorded on stream {marked} after "
    "{after}, before {before}",
    "record_stream": "call record_stream({side}) on {buffer} before its free{wrong:if  (record_stream named *)}, or "
    "let stream {home} wait for stream {side} before it",
    "stale": _OP + "{use}{more}",
    "expects_tag": "expects the tag {expected} in {buffer}, where {by} left {got:if the tag *|no tag}",
    "uses_reused": "uses {buffer} after its free, when its memory may have been given to {new} and overwritten by {by}",
    "uses_left": "uses {buffer} after its free; what a graph left holds until its pool ({pool}) gives the memory out "
    "again",
    "uses_freed": "uses {buffer} after its free; memory that a graph was captured with has to live as long as the "
    "graph is replayed",
    "reads_lost": "reads {buffer}, which nothing wrote since {replay}, which may have overwritten it: that graph's "
    "calls take memory of the pool",
    "reads_unwritten": "reads {buffer}, which nothing wrote before; what alloc gives is undefined",
    "reads_again": "reads {buffer} in {replay}, and no op wrote it since the replay before",
    "life": "{what} of {buffer}" + _IN_STEP + "{within:if , in *}",
    "given_again": "its pool gave the memory of {buffer} out again in step {step}{within:if , in *}; "
    "freed{where:if  at *}",
    "written_by": "written by {op}" + _IN_STEP,
    "overwritten_by": "overwritten by {op}" + _IN_STEP,
    "last_written_by": "last written by {op}" + _IN_STEP,
    "read_before": "read before in {replay}",
    "says_per_replay": "alloc of {buffer} says per_replay" + _IN_STEP,
    "write_each_time": "cure: write {buffer} before each replay, on a stream that the replay is behind; or leave "
    "per_replay out",
    "host_effect": _OP + "within the capture of graph {graph}: it takes effect once, in no replay{more}; send it "
    "outside of the capture",
    "unpaired_mode": _UNPAIRED + ": {sides:join ; }{differ:if ; *}",
    "calls_eagerly": "{ranks:ranks} {ranks:one calls|call} it eagerly{where:if  at *}",
    "replays_call": "{ranks:ranks} {ranks:one replays|replay} it in {replay}, as call {number} of {calls}"
    "{where:if , captured at *}",
    "captures_differ": "the captures on {line} differ from capture {number} on: {sides}",
    "captured": "{ranks:ranks} captured {graphs}",
    "captured_in_order": "{ranks:ranks} captured on {line}, in order: {graphs}",
    "one_way": "{communicator} from rank {sender} to rank {receiver}",
    "graphs": "{graphs:short 240}",
    "first_graph": "{graph} ({calls:count call})",
    "graph": "{graph} ({calls})",
    "no_graphs": "nothing",
    "gave_up_capture": "{ranks:ranks} gave up the capture {graphs:short 240}",
    "of_graph": "of graph {graph} at {where}",
}

SHORT = {
    "access": "rank {rank}, step {step}: {op}{call:if  (*)} " + _ACCESS,
    "race": _RACE + "{more}",
    "unpaired_mode": _UNPAIRED,
}
