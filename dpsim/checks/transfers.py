"""Transfers: checks that each rank sends as many elements, and of the same type, as its peer receives.

On every backend, the k-th send of a rank to a peer on a communicator pairs up with the peer's k-th receive from this
rank. So the check compares the two lists in order. Hardware does not compare them: it copies the bytes that fit, and
the run continues with wrong numbers.

    rank 0   send float32[64] to rank 1      send float32[64] to rank 1
    rank 1   recv float32[64] from rank 0    recv float32[32] from rank 0      ->   MISMATCH:TRANSFER:COUNT

Two sides have no majority. The culprit is the side whose argument differs from all other transfers at these two sites
(names of calls in the source), on both sides.

If the paired calls belong to different steps, one side left out a transfer before, or made one too many. Then the
culprit is the side whose number of transfers differs from every earlier step. If that number varies anyway, there is no
culprit. Nor is there one if the ranks received a new value in the step (`new_values`). The passes of `blame` may find
further evidence.

A transfer without a peer is no mismatch. The deadlock check reports it, or `leftover` if all programs ended.
"""

from __future__ import annotations

from dpsim.checks.finding import Fact, Finding, Part, fact
from dpsim.checks.new_values import new_value
from dpsim.checks.run_index import Entry, RunIndex, TransferLine, by_step
from dpsim.contract.ops import COUNT, DTYPE, SITE, RawRecord

FIELDS = {"count": COUNT, "dtype": DTYPE}
"""The arguments that both sides share, with their indexes in a raw record."""


def unequal(run_index: RunIndex) -> list[Finding]:
    """Returns at most one finding for each direction between two ranks of a communicator. Later ones may follow from
    it.
    """
    findings = []
    for line in run_index.transfers.values():
        for index, (send, receive) in enumerate(zip(*line, strict=False)):
            if send.raw[COUNT] != receive.raw[COUNT] or send.raw[DTYPE] != receive.raw[DTYPE]:
                findings.append(_finding(run_index, line, index))
                break
    return findings


def _finding(run_index: RunIndex, line: TransferLine, index: int) -> Finding:
    send, receive = line.sends[index], line.receives[index]
    field = next(name for name, at in FIELDS.items() if send.raw[at] != receive.raw[at])
    odd, more = odd_side(line) if send.step != receive.step else (_odd(line, index, FIELDS[field]), None)
    why = new_value_before(run_index, line, odd)
    odd, more = (None, None) if why else (odd, more)
    made = {"send": called(run_index, send), "receive": called(run_index, receive)}
    return Finding(
        check="ledger",
        klass=f"MISMATCH:TRANSFER:{field.upper()}",
        message=fact("unequal_transfer", sender=send.rank, receiver=receive.rank, **made, more=more),
        culprit=run_index.culprit(odd) if odd else None,
        position=min(run_index.position(send), run_index.position(receive)),
        why=why,
    )


def new_value_before(run_index: RunIndex, line: TransferLine, odd: Entry | None) -> Part:
    """Returns why other steps prove nothing against a side: a value that ranks received before; otherwise empty."""
    if odd is None:
        return ""
    here = [[one for one in side if one.step == odd.step] for side in line]
    paired = min(map(len, here))
    first = [own[paired] for own in here if len(own) > paired] or [odd]
    return new_value(run_index, odd.step, {one.rank: one.at for one in first})


def odd_side(line: TransferLine) -> tuple[Entry | None, Fact | None]:
    """Returns the culprit and its number of calls, if paired calls belong to different steps or one side made more.

    The culprit is the side with an unusual number of transfers, in the first step in which the sides differ. The result
    has its last call there. It is (None, None) if no number is usual, or if that side made no transfer in the step.
    """
    made = [by_step(side) for side in line]
    steps = sorted(made[0].keys() | made[1].keys())
    numbers = {step: [len(side.get(step, ())) for side in made] for step in steps}
    step = next((step for step, (sent, received) in numbers.items() if sent != received), steps[-1])
    usual = {number for when in steps if when < step for number in numbers[when]}
    odd = [side for side in (0, 1) if numbers[step][side] not in usual]
    if len(usual) != 1 or len(odd) != 1 or not numbers[step][odd[0]]:
        return None, None
    entry = made[odd[0]][step][-1]
    own, other = numbers[step][odd[0]], numbers[step][1 - odd[0]]
    return entry, fact("unusual_number", step=step, rank=entry.rank, number=own, usual=other)


def _odd(line: TransferLine, index: int, field: int) -> Entry | None:
    """Returns the side whose argument differs from all other transfers of the line at these sites, or None.

    An element count depends on data, so it needs at least two other transfers as evidence.
    """
    least = 2 if field == COUNT else 1
    matched = min(map(len, line))
    others: list[list[RawRecord]] = [
        [raw for at, (_, _, raw) in enumerate(side[:matched]) if at != index and raw[SITE] == side[index].raw[SITE]]
        for side in line
    ]
    usual = {raw[field] for own in others for raw in own}
    departs = [side[index] for side in line if side[index].raw[field] not in usual]
    return departs[0] if min(map(len, others)) >= least and len(usual) == 1 and len(departs) == 1 else None


def called(run_index: RunIndex, entry: Entry) -> Fact:
    """Returns a call and its place."""
    return fact("called", op=entry.record, within=run_index.within(entry))
