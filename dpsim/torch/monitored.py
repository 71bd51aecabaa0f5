"""`monitored_barrier`: rank 0 of a group learns which ranks have not come in time, and raises with their names.

    rank 1, 2, ...      send "came" to rank 0, and wait for its answer
    rank 0              takes these messages one after the other; then it answers all, or raises and answers that

The time-out is one of the contract: it passes where nothing else can happen (docs/assumptions.md). The ranks behind the
absent one get the answer of rank 0 here. On gloo they raise the same when their own time is up.
Source: torch, ProcessGroupGloo::monitoredBarrier.
"""

from __future__ import annotations

from collections import defaultdict

from dpsim.contract.interface import Rank


class MonitoredBarriers:
    """Those of one rank. It counts them, since the members of a group make them in one order."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self._made: defaultdict[str, int] = defaultdict(int)

    async def meet(self, group: str, ranks: list[int], ns: int, every: bool, site: str) -> str:
        """What torch raises on this rank, or an empty text. `every`: rank 0 waits for all, and names all that lack."""
        name, own = f"monitored.{group}.{self._made[group]}", self.rank.rank
        self._made[group] += 1
        first, *others = ranks
        if own != first:
            self.rank.send(first, f"{name}.{own}", 1, site)
            went_well = await self.rank.mailbox(f"{name}.answer").get(site)
            index = ranks.index(own)
            return (
                ""
                if went_well
                else (
                    f"Rank {index} successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0. Please check rank 0 logs for faulty rank."
                )
            )
        absent: list[int] = []
        for index, other in enumerate(others, 1):
            if await self.rank.mailbox(f"{name}.{other}").get(site, timeout_ns=ns) is None:
                absent.append(index)
                if not every:
                    break
        for other in others:
            self.rank.send(other, f"{name}.answer", not absent, site)
        if not absent:
            return ""
        said = f"Rank{'s' * every} {', '.join(map(str, absent))}"
        return f"[Rank 0]: {said} failed to pass monitoredBarrier in {ns // 1_000_000} ms"
