"""Of values: the sentences about calls and decisions that do not fit. `SHORT` has those of a first screen."""

from __future__ import annotations

_DISAGREE = "ranks of {communicator} disagree on {label!r} in step {step}"
_CROSSWISE = "ranks of {communicator} pair up crosswise in step {step}, as two calls are both {first}. "
_UNLIKE = "group {group}: members do not make the same one"
_BRINGS = "rank {rank} brings "
_REDUCED = "{call.site} ({call}, step {call.step}): the {call.reduce} of "

SENTENCES = {
    "disagree": _DISAGREE + ": {decided:join ; }{why:if ; *}",
    "decided": "{ranks:ranks} decided {value}",
    "decided_at": "{ranks:ranks} decided {value} at {where}",
    "majority": "{alike} of {ranks} ranks of {communicator} decided alike",
    "decided_alike": "in step {step}, {site} gave the same result, and {ranks:ranks} all decided as {right:ranks} "
    "{right:one does|do} now",
    "alike_after": "{ranks:ranks} differ before {site}, and act alike after it",
    "same_result": "each rank received the same result from {site}, "
    "{majority:if so a majority proves nothing|and no other step shows which decision is right}",
    "received_apart": "at {site}, {odd}, and {usual}",
    "received": "{ranks:ranks} received {value}{sender:if  from *}",
    "sender": "{actor} ({site})",
    "new_value": "what {ranks:ranks} received at {site} in step {step} is new: other steps prove nothing",
    "but": "{text}, but {doubt}",
    "did_not_decide": "{ranks:ranks} of {communicator} did not decide {label!r} in step {step}"
    "{alone:if , and| as often as} rank {rank}{alone:if |, which} decided {value} at {where}",
    "decided_instead": "rank {rank} decided {label!r}{on:if  on *} at {where}: did you mean {meant}?",
    "decided_times": "rank {rank} decided it {number:count time}",
    "must_decide": "every member has to decide it{local:if , or mark it local}",
    "no_gap": "a member has to decide a label, even a local one, in each step between its first and its last decision",
    "of_request": "if the value belongs to one request, put the request into the label",
    "crosswise": _CROSSWISE + "One is {first.site} at {first.where} by {first_by:ranks}, the other {second.site} at "
    "{second.where} by {second_by:ranks}. Make these calls in one order, or give those that belong together one site",
    "opposite_orders": "device collectives of different groups come in opposite order{limits:join}: {orders:join ; }",
    "left_out": "{ranks:ranks} left out {call} in step {step}",
    "did_not_reach": "{ranks:ranks} did not reach {call} in step {step}",
    "made": "{ranks:ranks} made {call}{replayed}",
    "in_replay": " in {replay}{missed:if ; *}",
    "did_not_replay": "rank {rank} did not replay {graph} in this step{others:if , but *}",
    "made_call_times": "{ranks:ranks} made {call} {number:times} in step {step}, {good:ranks} {usual:times}",
    "made_calls": "{ranks:ranks} made {number} calls on {communicator} in step {step}, {good:ranks} {usual}",
    "differ_from": "they differ from {site} ({op}) on",
    "called_otherwise": "{ranks:ranks} called {own} in step {step} where {good:ranks} called {right}",
    "calls_differ": "ranks differ in step {step} from {sites:join  or } on; it is unclear which are right: "
    "{ways:join ; }",
    "votes": "{alike} of {ranks} ranks {did} in step {step}",
    "votes_against": "{votes}, but {number:count call} in each step before",
    "made_it": "made it",
    "made_same_call": "made the same call",
    "made_there": "made {number:count call} there",
    "left_it_out": "left it out",
    "issued_nothing": "{ranks:ranks} issued no collective and no kernel in step {step}",
    "every_step_has": "every earlier step with calls on {communicator} has {number:count call} per rank",
    "departs_alone": "only rank {rank} departs from the other steps of the run",
    "one_step_more": "{others:ranks} began step {step}, and {ended:ranks} had ended: either may be wrong",
    "called": "{op.site} ({op}, step {op.step}){op.where:if  at *}{within:if  in *}",
    "unequal_transfer": "rank {sender} called {send}. Rank {receiver} called {receive}{more}",
    "unusual_number": ". In step {step} rank {rank} made {number} of these; its peer made {usual}, as in every step "
    "before",
    "unpaired": "rank {rank} called {call}. Rank {peer} {sent:if received|sent} {fewer} of {calls} and ended{more}. "
    "Make the other call, or leave this one out",
    "never_awaited": "rank {rank} never awaited {op.site}[{op.ordinal}] ({op}) of step {op.step}{more}; await what the "
    "call returns",
    "met": "its {own.site} at {own.where} met {other.site} of rank {rank} at {other.where}",
    "unequal_parts": "{call.site} ({call.op} on {call.communicator} #{call.seq}, step {call.step}): {first}",
    "sends_elements": "rank {rank} sends {count} elements to rank {to}, which expects {expected}",
    "alone_has": "{ranks:ranks} alone {ranks:one has|have} {setting}",
    "all_wait_for_all": ", and all members wait for all",
    "sends_last": ", and sends last until they are received",
    "runs_at_a_time": ", and a device runs {room} at a time",
    "may_not_run_both": ", and a device may not run both at a time",
    "has_places": ", and a device has {room:count place}",
    "order": "{ranks:ranks}: {first} before {second}",
    "blocked_before": "{ranks:ranks} {ranks:one is|are} blocked in {op} ({call}, stream {stream}, step {step}, {where}"
    "{within:if , *}) and would reach {other} after it, in which {waiting:ranks} {waiting:one waits|wait}",
    "unlike_groups": _UNLIKE + ": {made:join ; }; give the same ranks in the same order on all of them",
    "made_group": "{ranks:ranks} of {members:ranks}, {device:if with|without} a device communicator ({where})",
    "brings_nan": _BRINGS + "a NaN to " + _REDUCED + "a NaN and a number depends on their order",
    "brings_minus_zero": _BRINGS + "-0.0 to " + _REDUCED + "0.0 and -0.0 depends on their order",
    "test_for_nan": "{communicator}: test the input with isnan before the call, and reduce a flag beside it",
    "add_zero": "{communicator}: add 0.0 to the input, which turns -0.0 into 0.0",
}

SHORT = {
    "calls_differ": "ranks differ in step {step} from {sites:join  or } on; it is unclear which are right",
    "unequal_parts": "{call.site} ({call.op} on {call.communicator} #{call.seq}, step {call.step})",
    "disagree": _DISAGREE,
    "opposite_orders": "device collectives of different groups come in opposite order{limits:join}",
    "unlike_groups": _UNLIKE,
}
