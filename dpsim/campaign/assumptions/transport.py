"""Rows: collectives, transfers and messages."""

from __future__ import annotations

from collections import Counter

from dpsim.campaign.assumptions.facts import SUMS, Facts
from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Says, Section

RESIDENCY = Says("unlimited residency", lambda on: on.meets_on_devices and on.world.residency is None)

CONNECTED = Says("communicators are connected", lambda on: on.meets_on_devices and not on.world.lazy)

SUM_ORDER = Says("the order of floating-point sums does not matter", lambda on: on.did(*SUMS))

MAIL = "no mail is lost, doubled, reordered or added"


def _several_of_one_client(on: Facts) -> bool:
    mailboxes = Counter((message.by, message.mailbox) for message in on.world.messages)
    return any(number > 1 for number in mailboxes.values())


COLLECTIVES = Section(
    "Collectives",
    (
        Assumption(
            "end a collective on one member before the others (each waits for those whose elements it gets)",
            "always, where there is no time; with time all members end at once",
        ),
        Assumption(
            "let the root of a broadcast or scatter go before its receivers come, and a receiver before another one. "
            "Let a rank that gives to a reduce or gather go before its root comes. Gloo's root waits for the ranks "
            "that it sends to directly",
            "always both ways, as above",
        ),
        Assumption(
            "drop a collective of no elements (NCCL, when it is issued; gloo's `all_reduce` returns at once, while "
            "its `all_to_all` waits for empty pieces too)",
            "always. On a device it stands on no stream, takes no slot and orders nothing. On hosts it need not "
            "wait for any rank, and exploring tries both",
        ),
        Assumption(
            "add or multiply floating-point numbers in any order, and round after each",
            "no: sums and products are in the order of the group. A proof says so where the terms added forwards, "
            "backwards and exactly differ; a NaN under a maximum or minimum is a finding",
            says=(SUM_ORDER,),
        ),
        Assumption(
            "multiply each term of an average by a fraction before it is added (NCCL)",
            "no: the sum is divided. The two differ where the number of members is no power of two",
            says=(SUM_ORDER,),
        ),
        Assumption(
            "answer no to a host that asks whether its collective or transfer is over, when it could be",
            "always both ways, where there is no time, until the host has awaited it or found it over. A time-out of a "
            "get passes behind all that could end, so it counts from the first look on. With time the answer is yes as "
            "soon as the call is over",
        ),
        Assumption(
            "hold the members of a group that is made during the run until all have called for it",
            "always (`Rank.group`)",
        ),
        Assumption("run collectives of one communicator in the order of issue across streams (NCCL)", "always"),
        Assumption(
            "keep collectives of several communicators from one another, as each kernel holds the GPU while it waits",
            "option; else unlimited residency",
            "`limits.residency`, `World.residency`",
            (RESIDENCY,),
        ),
        Assumption(
            "make a communicator lazily at its first use: then the first collective is a meeting of all hosts",
            "option; else communicators are connected from the start",
            "`limits.lazy_communicators`, `World.lazy`",
            (CONNECTED,),
        ),
        Assumption(
            "open the connection of two ranks at their first transfer, and hold both hosts up until then",
            "option; else communicators are connected from the start",
            "`limits.lazy_communicators`",
            (CONNECTED,),
        ),
        Assumption(
            "give torch's point-to-point calls communicators apart, one for each pair",
            "no: transfers and collectives of a communicator share its order",
            "",
            (Says("transfers and collectives of a communicator share its order", lambda on: on.mixed),),
        ),
        Assumption(
            "fail on mismatched calls, hang, or leave garbage",
            "each member gets what its own call asks for; the ledger finds the mismatch",
            nothing="a mismatch is a finding",
        ),
        Assumption("use NVLink multicast", "no", "", (Says(OTHERWISE, lambda on: on.meets_on_devices),)),
        Assumption(
            "time out (torch's watchdog)",
            "no: no collective times out, and a hang is seen when nothing can move any more",
            "`limits.stall` and `limits.deadline` on real backends, `World.stall_ns`, `World.deadline_ns`",
            (Says(OTHERWISE, lambda on: on.meets),),
        ),
        Assumption(
            "let a program try again without end after a fault, each time otherwise",
            "option: a bound on the ops after the last fault, kill or delay; else until the run is cut off",
            "`limits.progress`, `World.progress`",
            nothing='where runs are cut off the verdict is "bounded"',
        ),
    ),
)

TRANSFERS = Section(
    "Transfers and messages",
    (
        Assumption(
            "end a send before its receiver comes, or not until then, or do both with two sends. (NCCL between two "
            "H200s: up to 64 MiB ended early, 128 MiB waited)",
            "always, where there is no time; with time sends of up to 64 KiB end early",
        ),
        Assumption(
            "let a receive from any source take the next message of any member that sends one (gloo; NCCL has none)",
            "always, where there is no time, also a message that is sent later; with time the first one",
        ),
        Assumption(
            "let the kernel of a transfer hold the GPU while it waits",
            "option; else unlimited residency",
            "`limits.residency`",
            (RESIDENCY,),
        ),
        Assumption(
            "deliver messages of two senders in either order, and as late as it likes",
            "always, where there is no time; in a run at the gates of another one as there",
            "`delays` for a run with time, `World.delays`; `World.gates`",
        ),
        Assumption(
            "hold a host up in a send, so that it is late with all that it does next",
            "no: a delay at a send makes the message late, and the host goes on",
            "`delays` at the call before",
            (Says("a host goes on after a late send", lambda on: on.did("post") and bool(on.world.delays)),),
        ),
        Assumption(
            "let messages come from outside of the program, before or after any others",
            "option; else no message is from outside, or only those that are named",
            "`messages`, `World.messages`",
            (Says(MAIL, lambda on: on.did("take")),),
        ),
        Assumption(
            "bring messages of several clients outside of the program in any order",
            "option. Clients are several where their messages are sent at several ranks. Messages to one mailbox "
            "that are sent where one rank is are one client's, and keep their order (at one address that of the "
            "file)",
            "`messages` with several ranks in `after`, `World.messages`",
            (Says(MAIL, _several_of_one_client),),
        ),
        Assumption(
            "deliver messages of one sender to one mailbox out of order or twice, or lose them while the sender lives",
            "no",
            "",
            (Says(MAIL, lambda on: on.did("post") or bool(on.world.messages)),),
        ),
    ),
)
