"""The surroundings of a configuration: the platform, its devices, the environment, free ports.

vLLM asks its process and its machine for these. Here the caller passes them, so the same fields in the same
surroundings give the same configuration everywhere. Only the outermost command passes `os.environ`.

    >>> Surroundings(environ={"VLLM_DP_SIZE": "4"}).number("VLLM_DP_SIZE", 1)
    4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Self, TypeAlias

Platform: TypeAlias = Literal["cuda", "rocm", "xpu", "tpu", "cpu"]


@dataclass(frozen=True)
class Surroundings:
    """`devices`: those of a node; None: any number. `ray`: whether Ray can be imported.
    `ray_placement_group`: whether the process runs in a placement group of Ray. `nixl`: whether NIXL can be imported.
    `open_ports`: the five free ports that the process would draw. They lie below those that Linux gives to a program
    that asks for any, as the comparison of two runs has names for given ports.
    """

    platform: Platform = "cuda"
    devices: int | None = None
    ray: bool = False
    ray_placement_group: bool = False
    nixl: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    open_ports: tuple[int, ...] = (20001, 20002, 20003, 20004, 20005)

    @classmethod
    def of_rank(cls, rank: int = 0) -> Self:
        """The surroundings that a scenario assumes. They have the devices and packages that its configuration needs
        (Ray, NIXL), and a launcher that gives each process the number of its rank.
        """
        return cls(ray=True, nixl=True, environ={"RANK": str(rank)})

    @property
    def cuda_alike(self) -> bool:
        return self.platform in ("cuda", "rocm")

    def number(self, variable: str, default: int) -> int:
        """The value of an environment variable. Raises ValueError for text that is no whole number."""
        text = self.environ.get(variable)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"the environment variable {variable} is {text!r}; expected a whole number") from None

    def switched_on(self, variable: str) -> bool:
        """Whether an environment variable is a number other than 0."""
        return self.number(variable, 0) != 0
