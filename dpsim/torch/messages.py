"""Lists the messages that a rank's process sends to dpsim. `dpsim.torch.child.pipe` lists dpsim's answers."""

from __future__ import annotations

from dpsim.torch.wire import Form

PLAIN = (str, int, float, bool, type(None), list)

FORMS: dict[str, Form] = {
    "place": (str, list),
    "step": (int,),
    "loop": (int,),
    "decide": (str, PLAIN, str, str),
    "start": (int, str, str, dict),
    "wait": (int, str),
    "query": (int, str),
    "asynchronous": (),
    "within": (int, int, str),
    "batch": (str,),
    "group": (str, list, str),
    "monitored": (str, list, int, bool, str),
    "abort": (str, str),
    "open": (int, str),
    "join": (int, int, str),
    "set": (int, str, str, str),
    "store": (int, str, str, PLAIN, PLAIN, str),
    "close": (int, str),
    "sleep": (int, str),
    "clock": (int,),
    "outside": (str, str),
    "threads": (),
    "second": (),
    "thread": (str, bool, str),
    "ended": (),
    "joins": (str, str),
    "stand": (str, int, str),
    "let": (str, str),
    "choose": (str, bool, str),
    "lost": (str, list),
    "imported": (list,),
    "done": (list,),
    "exited": (int, list),
    "raised": (str, str, list),
    "uncovered": (str, list),
}

PLAIN_CALLS = ("start", "set", "batch", "close", "decide", "lost", "abort", "asynchronous", "outside")
"""Messages for calls that need no answer. If dpsim schedules the threads of the process, it answers them with True."""

ABOUT: dict[str, type] = {
    "site": str,
    "dtype": str,
    "elements": int,
    "reduce": str,
    "root": int,
    "peer": int,
    "tag": int,
    "sent": list,
    "received": list,
}
