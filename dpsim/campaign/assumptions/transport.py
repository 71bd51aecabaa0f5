"""Transport: rows of the table of assumptions about collectives, transfers and messages."""

from __future__ import annotations

from collections import Counter

from dpsim.campaign.assumptions.facts import SUMS, Facts
from dpsim.campaign.assumptions.row import OTHERWISE, Assumption, Section, Statement

RESIDENCY = Statement("unlimited residency", lambda on: on.meets_on_devices and on.world.residency is None)

CONNECTED = Statement("communicators are connected", lambda on: on.meets_on_devices and not on.world.lazy)

SUM_ORDER = Statement("the order of floating-point sums does not matter", lambda on: on.did(*SUMS))

NO_EARLY_READ = "no rank reads the result of a call before its wait"
"""What a program of torch with asynchronous calls assumes."""

MAIL = "no message is lost, duplicated, reordered or added"


def _several_of_one_client(on: Facts) -> bool:
    mailboxes = Counter((message.by, message.mailbox) for message in on.world.messages)
    return any(number > 1 for number in mailboxes.values())


COLLECTIVES = Section(
    "Collectives",
    (
        Assumption(
            "complete a collective on one member before the others (each waits for the members whose data it needs)",
            "always, in untimed runs; in a timed run all members complete at once",
        ),
        Assumption(
            "release the root of a broadcast or scatter before its receivers arrive, and a receiver before another "
            "one. Release a rank that contributes to a reduce or gather before its root arrives. (Gloo's root waits "
            "for the ranks to which it sends directly)",
            "always both ways, in untimed runs",
        ),
        Assumption(
            "drop a collective of no elements (NCCL, when it is issued; gloo's `all_reduce` returns at once, while "
            "its `all_to_all` waits for empty pieces too)",
            "always. On a device, such a call uses no stream and no slot, and orders nothing. On hosts it may wait for "
            "the other ranks or not, and exploring tries both",
        ),
        Assumption(
            "add or multiply floating-point numbers in any order, and round after each",
            "no: sums and products follow the order of the group. A proof prints its words if the sums forwards, "
            "backwards and exact differ. A NaN in a maximum or minimum is a finding, and so are "
            "zeros of both signs",
            says=(SUM_ORDER,),
        ),
        Assumption(
            "multiply each term of an average by a fraction before it is added (NCCL)",
            "no: it divides the sum. Both differ if the number of members is no power of two",
            says=(SUM_ORDER,),
        ),
        Assumption(
            "answer no to a host that queries its collective or transfer, although it could be over",
            "always both ways, in untimed runs, until the host has awaited the call or found it over. After a "
            "time-out, every call that could be over by then is over. In a timed run the answer is yes as soon as the "
            "call is over",
        ),
        Assumption(
            "block the members that create a group during the run until all of them have called `group`",
            "always (`Rank.group`)",
        ),
        Assumption("run collectives of one communicator in the order of issue across streams (NCCL)", "always"),
        Assumption(
            "keep collectives of several communicators from running, because each waiting kernel occupies the GPU",
            "option; without it, unlimited residency: any number runs at a time",
            "`limits.residency`, `World.residency`",
            (RESIDENCY,),
        ),
        Assumption(
            "make a communicator lazily at its first use, so that all hosts wait for each other in the first "
            "collective",
            "option; without it, communicators are connected from the start",
            "`limits.lazy_communicators`, `World.lazy`",
            (CONNECTED,),
        ),
        Assumption(
            "open the connection of two ranks at their first transfer, and block both hosts until then",
            "option; without it, communicators are connected from the start",
            "`limits.lazy_communicators`",
            (CONNECTED,),
        ),
        Assumption(
            "give torch's point-to-point calls separate communicators, one for each pair of ranks",
            "no: transfers and collectives of a communicator share its order",
            "",
            (Statement("transfers and collectives of a communicator share its order", lambda on: on.mixed),),
        ),
        Assumption(
            "write the result of an asynchronous call of torch at any time before its `wait`, and read its input until "
            "then",
            "no: it reads the input at the call, and writes the result at the `wait`. A program of torch that changes "
            "the values of such a tensor in between has a finding; one that reads the result early has none",
            "",
            (Statement(NO_EARLY_READ, lambda on: NO_EARLY_READ in on.by_program),),
        ),
        Assumption(
            "fail on mismatched calls, hang, or leave garbage",
            "no: each member receives a result of the size in its own call; the check `ledger` finds the mismatch",
            nothing="a mismatch is a finding",
        ),
        Assumption("use NVLink multicast", "no", "", (Statement(OTHERWISE, lambda on: on.meets_on_devices),)),
        Assumption(
            "time out (torch's watchdog)",
            "no: no collective times out; the simulation detects a hang when no actor can continue",
            "`limits.stall` and `limits.deadline` on real backends, `World.stall_ns`, `World.deadline_ns`",
            (Statement(OTHERWISE, lambda on: on.meets),),
        ),
        Assumption(
            "let a program retry without end after a fault, each time with other ops",
            "option: a bound on the ops after the last fault, kill or delay; without it, the run is cut off",
            "`limits.progress`, `World.progress`",
            nothing='if runs are cut off, the verdict is "bounded"',
        ),
    ),
)

TRANSFERS = Section(
    "Transfers and messages",
    (
        Assumption(
            "complete a send before its receiver arrives, or only then, even differently for two sends. (NCCL between "
            "two H200s: sends of up to 64 MiB completed early, and of 128 MiB waited)",
            "always, in untimed runs; in a timed run sends of up to 64 KiB complete early",
        ),
        Assumption(
            "let a receive from any source take the next message of any member that sends one (gloo; NCCL has none)",
            "always, in untimed runs, even a message that is sent later; in a timed run the first one",
        ),
        Assumption(
            "let the kernel of a transfer occupy the GPU while it waits",
            "option; without it, unlimited residency",
            "`limits.residency`",
            (RESIDENCY,),
        ),
        Assumption(
            "deliver messages of two senders in either order, and with any delay",
            "always, in untimed runs; a run with the gates of another run delivers them as that run did",
            "`delays` for a timed run, `World.delays`; `World.gates`",
        ),
        Assumption(
            "hold a host up in a send, so that all of its next ops are late",
            "no: a delay at a send delays the message, and the host continues",
            "`delays` at the call before",
            (Statement("a host continues after a late send", lambda on: on.did("post") and bool(on.world.delays)),),
        ),
        Assumption(
            "let messages come from outside of the program, before or after any others",
            "option; without it, no message comes from outside. With it, only the listed ones do",
            "`messages`, `World.messages`",
            (Statement(MAIL, lambda on: on.did("take")),),
        ),
        Assumption(
            "bring messages of several clients outside of the program in any order",
            "option. The key `after` of a message names the op, and so the rank, at which it is sent. Messages to one "
            "mailbox with the same rank in `after` count as those of one client, and keep their order. Messages with "
            "different ranks arrive in any order",
            "`messages` with several ranks in `after`, `World.messages`",
            (Statement(MAIL, _several_of_one_client),),
        ),
        Assumption(
            "deliver messages of one sender to one mailbox out of order or twice, or lose them while the sender lives",
            "no",
            "",
            (Statement(MAIL, lambda on: on.did("post") or bool(on.world.messages)),),
        ),
    ),
)
