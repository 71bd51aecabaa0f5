"""The ports of the groups that an engine and its workers create at start-up.

The engine draws five free ports once. The last becomes the master port, and the others form a list, of which every
process receives a copy. The members of a group find each other only if all have taken the same number of ports before:

    >>> engine = InitPorts([29601, 29602, 29603, 29604], 29605)
    >>> worker = engine.copy()
    >>> engine.get_next_dp_init_port(), worker.get_next_dp_init_port()
    (29604, 29604)
    >>> InitPorts([], 29605).get_next_dp_init_port()
    29605

Source: specification chapter 8.3 (ports).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from dpsim.vllm.config.values import ParallelValues


@dataclass
class InitPorts:
    """The ports of one process: a list, and the master port, which the process uses when the list is empty."""

    ports: list[int] = field(default_factory=list)
    master_port: int = 29500

    @classmethod
    def of(cls, config: ParallelValues) -> Self:
        """Returns the ports of a configuration, as a copy for a separate process."""
        return cls(list(config.data_parallel_master_port_list), config.data_parallel_master_port)

    def copy(self) -> Self:
        return type(self)(list(self.ports), self.master_port)

    def get_next_dp_init_port(self) -> int:
        """Removes and returns the last port; from an empty list the master port, which then increases by one."""
        if self.ports:
            return self.ports.pop()
        self.master_port += 1
        return self.master_port - 1
