"""Of threads: the sentences about host threads, flags and streams of one rank that wait for each other."""

from __future__ import annotations

SENTENCES = {
    "place": "{op.site}{op.where:if , *}, step {op.step}",
    "thread": "thread {thread} of {ranks:ranks} {does}",
    "of_thread": "{thread} {does}",
    "named_thread": "thread {thread}",
    "in_cycle": "is in a cycle of waits: {waits}",
    "joins": "joins thread {thread} ({where}), which {state}",
    "joins_thread": "joins {thread} ({where})",
    "waits_for_flag": "waits for flag {flag} ({where}){history:if , *}",
    "waits_in_vain": "waits for flag {flag} ({where}), {history}{instead}: {others:if *|there is no other thread}",
    "set_instead": ", while {thread} set flag {flag} instead ({where})",
    "never_set": "which no thread ever set",
    "set_elsewhere": "which no thread set; thread {thread} of rank {rank} set its own ({where})",
    "set_last": "which {by:if *|it} set last ({where}){cleared}",
    "cleared": " and {by:if *|it} cleared ({where}){late:if  before the stream polled it}",
    "thread_raised": "raised {message} ({where}, step {step})",
    "thread_ended": "has ended (step {step})",
    "no_op_yet": "has issued no op",
    "blocked_in": "is blocked in {op} ({where})",
    "stream_waits": "stream {stream} of {ranks:ranks} waits for flag {flag} ({where}), {why}",
    "recorded_again": "event {event} of {ranks:ranks} is recorded again on {on}, behind {behind}. {blocked}. The "
    "record before ({before}) is not behind that wait",
    "on_stream": "stream {stream} ({where})",
    "wait_for_flag": "the wait of stream {stream} for flag {flag} ({where})",
    "blocked_thread": "Thread {thread} is blocked ({where})",
}
