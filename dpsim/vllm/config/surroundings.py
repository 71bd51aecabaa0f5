"""The surroundings of a configuration: the platform, its devices, environment variables and free ports.

vLLM queries its process and its machine for these values. Here the caller passes them. So the same fields in the same
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
    """The machine and the environment on which a configuration depends.

    `devices`: the number of devices of a node; None means any number. `ray`: whether the process can import Ray.
    `ray_placement_group`: whether the process runs in a placement group of Ray. `nixl`: whether the process can import
    NIXL. `open_ports`: the five free ports that the process would draw. They are below the range from which Linux
    assigns ports to programs. A comparison of two runs needs fixed ports, because it names them.
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
        """Returns the surroundings that a scenario assumes for a rank.

        The machine has all devices and packages that the configuration needs (Ray, NIXL). A launcher gives each process
        its rank in RANK.
        """
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
