"""Of hosts: the sentences about hosts that hang in a call, a transfer or a first use, and about their threads."""

from __future__ import annotations

_BLOCKED = "rank {rank} is blocked in {call.site} ({call}, step {call.step}): "

SENTENCES = {
    "blocked_in_alloc": _BLOCKED + "it needs new memory, and waits for all that the rank has put on its device",
    "blocked_in_queue": _BLOCKED + "{room:count op} before it on that stream have not ended, and the launch queue "
    "holds no more",
    "slots_held": "rank {rank}: {slots} held by {held}{waits:if ; *}",
    "only_slot": "its only slot is",
    "all_slots": "its {number:count slot} are",
    "wait_for_slot": "{ops} {ops:one waits|wait} for one",
    "op_at": "{call} ({call.site}, {call.where}, step {call.step}{within:if , *})",
    "more_without_slot": "{number:count more rank} without a free slot",
    "blocked_in_first_use": "rank {rank} is blocked in {use}: {call.site} ({call}, step {call.step}, {call.where})",
    "first_transfer": "its first transfer with {ranks:ranks}",
    "first_with": "its first with {ranks:ranks}",
    "first_use": "its first use of {communicator}, where it waits for {ranks:ranks}",
    "first_uses": "rank {rank} is blocked in {uses:join , which is blocked in }{more}{end:if , which *}",
    "and_so_on": ", and so on through {number:count more rank} to rank {rank}",
    "has_ended": "has ended",
    "did_nothing": "did nothing",
    "last_called": "last called {call.site} ({call}, step {call.step}, {call.where})",
    "more_ranks": "and {number:count more rank}",
    "to_let_pass": "to let them pass: {cure}",
    "let_call_first": "let rank {rank} make that call before it waits for what these ranks do next",
    "group_transfers": "issue all transfers of a rank as one group (`coalesced`), or let one of these ranks begin with "
    "another",
    "one_order_at_start": "let all ranks use these communicators first in one order, for instance once at the start",
    "crossed": "each of {ranks:ranks} is blocked in a {sends:if send|receive}"
    "{issued:if , before the | to another one, and none reaches a }{sends:if receive|send}"
    "{issued:if  for which another one waits}",
    "blocks_in_transfer": "rank {rank} blocks in its {within}{before:if , before its *}",
    "transfer": "{sends:if send to|recv from} rank {call.peer} ({call.site} on {call.communicator} #{call.seq}, "
    "{call.where})",
    "more_in_ring": "and {number:count more rank} in a ring",
    "turn_one": "{other:if *, or }let one of these ranks {sends:if receive|send} first",
    "group_both": "issue both as one group (`coalesced`)",
    "begin_both": "begin both before you await one",
    "unordered": "threads {threads:join  and } of rank {rank} use {name}, {by:if thread * changes it|both change it}, "
    "and no flag orders these turns",
    "shared_use": "{thread} {changes:if changes|reads} it in step {step} at {where}",
    "promised_by_flags": "ordered_by_flags promises that a flag, a start, a join or a message orders them; hardware "
    "takes any order",
    "let_flag_order": "cure: let one thread set a flag after its use, and the other wait for it; or leave "
    "ordered_by_flags out",
}
