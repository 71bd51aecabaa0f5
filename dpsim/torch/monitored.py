"""`monitored_barrier`: rank 0 of a group raises an error that names the ranks which did not arrive before the time-out.

    rank 1, 2, ...      send a message to rank 0, and wait for its answer
    rank 0              receives these messages one after the other, answers all ranks, and raises if one is missing

In dpsim, the time-out passes only where nothing else can happen. Ranks that rank 0 did not wait for raise at once here.
On gloo they raise the same error when their own time-out passes. Source: torch, ProcessGroupGloo::monitoredBarrier.
"""

from __future__ import annotations

from collections import defaultdict

from dpsim.contract.interface import Rank


class MonitoredBarriers:
    """The monitored barriers of one rank, numbered because all members make them in the same order."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self._made: defaultdict[str, int] = defaultdict(int)

    async def meet(self, group: str, ranks: list[int], ns: int, every: bool, site: str) -> str:
        """Returns the error text that torch raises on this rank, or "". `ranks`: global ranks. `ns`: the time-out.
        `every`: rank 0 waits for all members, and names all that are missing.
        """
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
        absent_ranks = f"Rank{'s' * every} {', '.join(map(str, absent))}"
        return f"[Rank 0]: {absent_ranks} failed to pass monitoredBarrier in {ns // 1_000_000} ms"
