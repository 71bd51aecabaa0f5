"""Of ends: the sentences about exceptions, deaths, hangs and loops. `of_threads` has those of hangs within a rank."""

from __future__ import annotations

_ACTOR = "{thread:if thread * of |}rank {rank}"

SENTENCES = {
    "died": "rank {rank} died in step {step}",
    "raised": "{thread:if thread * of |}{ranks:ranks} raised {error} in step {step}{where:if  at *}: {message}",
    "did_not_end": "{ranks:ranks} did not end, and every collective was joined by all its members"
    "{no_slots:if ; ranks have no slot left}",
    "joined": "{communicator} #{seq}: {number} of {members} joined: {ranks:ranks} ({call.op} at {call.site}, "
    "{call.where}, step {call.step}{within:if , *})",
    "missing": "missing {ranks:ranks}: {end}{did}",
    "last_op": "; last op {op.site}: {op}, step {op.step}{op.where:if , *}",
    "asleep_in": "asleep in an idle get of {mailbox}",
    "never_joins": "never joins",
    "never_sends": "never sends",
    "never_receives": "never receives",
    "has_aborted": "has aborted {communicator}",
    "wait_for_rank": "{ranks:ranks} {ranks:one waits|wait} in {call.site} ({call.op} on {communicator} #{seq}, "
    "step {call.step}{within:if , *}) for rank {rank}, which {how} ({end})",
    "wait_for_work": "{ranks:ranks} {ranks:one waits|wait} for work of rank {rank}, which {end} after {site} in step "
    "{step}",
    "waits_for": "rank {rank} -> rank {other} ({what})",
    "no_message": _ACTOR + " waits for a message in {take.mailbox} ({take.site}, step {take.step}); {sent} "
    "{sent:one was|were} ever sent to it",
    "at_gate": _ACTOR + " waits at its gate of {mailbox} for {message}",
    "from_outside": "message {ordinal} from outside, which is sent where {actor} is",
    "post_at": "what {actor} posts at {thread:if * |}{site}[{ordinal}]; "
    "{sent:if it did, and another get or poll took it|it never posted it}",
    "last_taken": "rank {rank} last took {message} from {mailbox}",
    "no_listener": "rank {rank} waits for a listener at port {wait.port} of node {wait.node} ({wait.site}, step "
    "{wait.step}); {why}",
    "listened_and_left": "{ranks:ranks} listened there, and left",
    "listened_elsewhere": "no rank did; on that node listened: {there:if *|no rank}",
    "at_port": "rank {rank} at port {port}",
    "no_value": "rank {rank} waits for key {wait.key}{unset:if , which no rank sets} ({wait.site}, step {wait.step})",
    "listened": "{ranks:ranks} listened at port {port} of node {node}",
    "another_listens": "another program listens at port {port} of node {node}",
    "key_was_set": "the key was set {number:times}, by {where}",
    "got_key": "{ranks:ranks} got the key {key} at {site} in step {step}",
    "unasked_key": "rank {rank} set the key {key}, for which no rank asks",
    "either_misspelt": "{unasked}: rank {rank} or it misspelt the key",
    "keys_met": "rank {rank} waits for {wanted}, and keys spelt as {key} met in other steps",
    "op": "{op} ({op.site}, {op.where}, step {op.step})",
    "repeats": "{ranks:ranks} {ranks:one repeats|repeat} {ops}",
    "without_end": "{repeats}, without end: {why}; end the loop after a number of rounds",
    "no_answer": "no other event can answer these calls",
    "no_way_out": "none of these calls can end the loop",
    "same_state": "all programs and mailboxes are in the same state again",
    "is_blocked": "rank {rank} {op:if is blocked in *|has not begun}",
    "too_many_ops": "rank {rank} issued more than {most:,} ops{planted:if  after the last fault}, and the run has no "
    "end",
    "went_through": "rank {rank} went through {ops}",
    "not_ended": "rank {rank} has not ended either",
    "circle": "ranks wait for each other in different {ops:if ops|groups}: {circle}",
    "chain": "{waits:join  -> }",
    "in_call": "rank {rank} ({communicator} #{seq})",
    "raised_with": "{ranks:ranks}: {message}",
    "may_be_victims": "{ranks:ranks} raised; {ranks:one it may be a victim|they may be victims} of another rank's "
    "value",
    "last_took": "rank {rank} last took {message} from {mailbox} at {site}: sent {senders:join  or }",
    "sent_by": "by rank {rank} at {site}, {where}, step {step}",
    "sent_from_outside": "from outside, as rank {rank} reached {at}",
    "sent_by_none": "by no actor of this run",
}

SHORT = {"circle": "ranks wait for each other in different {ops:if ops|groups}", "raised": "{error}: {message}"}
