"""The launcher's store: a service that listens on the port of MASTER_PORT for as long as a run lasts.

Ranks of torchrun find one another there, and rank 0 may end before the others look. So the listener is no rank.
"""

from __future__ import annotations

from dpsim.contract.interface import Rank

AGENT = "agent"
PORT = 29401
"""As `dpsim.torch.child.rank` tells it to the ranks."""


async def serve_agent(rank: Rank) -> None:
    """Listen, and stay."""
    await rank.open_store(PORT, "agent.listen")
    await rank.mailbox("none").get("agent.stay", idle=True)
