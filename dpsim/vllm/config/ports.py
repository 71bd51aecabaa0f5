"""Ports for the groups that an engine and its workers make at start-up.

Five free ports are drawn once. The last becomes the master port, and the others are in a list, of which every process
gets a copy. Each group takes the last port of its process's copy. So the members of a group meet only if all of them
have taken equally many ports before:

    >>> engine = InitPorts([29601, 29602, 29603, 29604], 29605)
    >>> worker = engine.copy()
    >>> engine.get_next_dp_init_port(), worker.get_next_dp_init_port()
    (29604, 29604)
    >>> InitPorts([], 29605).get_next_dp_init_port()
    29605

Source: specification chapter 8.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from dpsim.vllm.config.values import ParallelValues


@dataclass
class InitPorts:
    """The ports of one process: a list, and the master port, which it uses when the list is empty."""

    ports: list[int] = field(default_factory=list)
    master_port: int = 29500

    @classmethod
    def of(cls, config: ParallelValues) -> Self:
        """A copy for a separate process."""
        return cls(list(config.data_parallel_master_port_list), config.data_parallel_master_port)

    def copy(self) -> Self:
        return type(self)(list(self.ports), self.master_port)

    def get_next_dp_init_port(self) -> int:
        """The port of the next group: the last of the list. When the list is empty, it is the master port, then one
        more each time.
        """
        if self.ports:
            return self.ports.pop()
        self.master_port += 1
        return self.master_port - 1
