"""The surroundings of a configuration: the platform, its devices, environment variables and free ports.

vLLM queries its process and machine; here the caller passes the values. Only the outermost command passes `os.environ`.

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
    """The machine and the environment on which a configuration depends.

    `devices` of a node; None: any number. `ray`, `nixl`: whether the process can import it. `ray_placement_group`: it
    runs in one. `open_ports`: the five free ports that it would draw, fixed so that two runs can be compared, below the
    range from which Linux assigns ports.
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
        """A machine with all devices and packages (Ray, NIXL), whose launcher gives the rank in RANK."""
        return cls(ray=True, nixl=True, environ={"RANK": str(rank)})

    @property
    def cuda_alike(self) -> bool:
        return self.platform in ("cuda", "rocm")

    def number(self, variable: str, default: int) -> int:
        """Returns the value of an environment variable as an integer. Raises ValueError for other text."""
        text = self.environ.get(variable)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"the environment variable {variable} is {text!r}; expected a whole number") from None

    def switched_on(self, variable: str) -> bool:
        """Returns whether an environment variable is a number other than 0."""
        return self.number(variable, 0) != 0
