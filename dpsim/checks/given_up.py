"""Given up: handles communicators that a member aborted, as in ncclCommAbort. The ledger and the deadlock check use it.

    rank 0   all_reduce on dp #3   abort dp       the abort broke #3 off, so the ledger ignores it
    rank 1   ended                                without the abort, rank 1 left #3 out

A call never completes if its rank aborts the communicator. So the ledger does not blame peers for leaving out this
call. Peers that had joined a collective with the aborting rank may still wait in it. The deadlock check then blames the
abort.
"""

from __future__ import annotations

from dpsim.checks.run_index import Entry, RunIndex
from dpsim.checks.stuck import passed_on_streams
from dpsim.contract.ops import ABORT_COMMUNICATOR, ADDRESS, BROKEN_OFF, KIND, LEARNED_OUTCOME, STREAM, RawRecord

ABORTED = "HANG:COLLECTIVE:ABORTED"


def abort_of(run_index: RunIndex, rank: int, communicator: str) -> Entry:
    """Returns the call by which a rank aborted a communicator."""
    journal = run_index.run.journals[rank]
    at = next(at for at, raw in enumerate(journal) if _aborts(raw, communicator))
    return Entry(rank, at, journal[at])


def without_broken_off(
    run_index: RunIndex, communicator: str, members: dict[int, list[Entry]]
) -> dict[int, list[Entry]]:
    """Returns the calls of each member, without those that its abort broke off and that no other member joined."""
    gave_up = run_index.aborted.get(communicator, set())
    others = [len(own) for rank, own in members.items() if rank not in gave_up]
    if not gave_up or not others:
        return members
    return {
        rank: own[: max(max(others), _ended(run_index, communicator, own))] if rank in gave_up else own
        for rank, own in members.items()
    }


def _ended(run_index: RunIndex, communicator: str, own: list[Entry]) -> int:
    if not own:
        return 0
    journal = run_index.run.journals[own[0].rank]
    learned = {raw[ADDRESS] for raw in journal if raw[KIND] == "learned" and raw[LEARNED_OUTCOME] != BROKEN_OFF}
    at = next(at for at, raw in enumerate(journal) if _aborts(raw, communicator))
    passed = passed_on_streams(journal[:at])  # after the abort, streams continue past the broken work

    def ended(entry: Entry) -> bool:
        if entry.raw[STREAM] is None:
            return entry.raw[ADDRESS] in learned
        return entry.at < passed.get(entry.raw[STREAM], 0)

    return next((number for number in range(len(own), 0, -1) if ended(own[number - 1])), 0)


def _aborts(raw: RawRecord, communicator: str) -> bool:
    return bool(raw[KIND] == "abort" and raw[ABORT_COMMUNICATOR] == communicator)
