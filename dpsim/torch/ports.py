"""The launcher's store: a service that listens on MASTER_PORT during the whole run.

torchrun keeps this store in the launcher, where ranks find each other. Rank 0 may end before other ranks read the
store. So the simulation runs the store in a service, not in a rank.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank

AGENT = "agent"
PORT = 29401
"""The port of the launcher's store. `dpsim.torch.child.rank` writes the same number to MASTER_PORT."""


async def serve_agent(rank: Rank) -> None:
    """Opens the store, and waits until the run ends."""
    await rank.open_store(PORT, "agent.listen")
    await rank.mailbox("none").get("agent.stay", idle=True)
