"""`torch_holds`: checks in a test that a program of torch.distributed holds in every schedule that it explores.

    from dpsim.testing import torch_holds

    def main(rank, size):                   # any function of a module; its process group exists
        dist.all_reduce(torch.ones(1))

    def test_main():
        torch_holds(main, ranks=4)

    torch_holds("train.py", ranks=2, args=["--steps", "3"], order="nccl")

The function runs in other processes, which import its module again. So it does not see the state of the test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsim.campaign.explored import Explored


def torch_holds(
    main: Callable[..., Any] | str | Path,
    *,
    ranks: int = 2,
    args: Sequence[str] = (),
    order: str = "gloo",
    faults: Sequence[Mapping[str, Any]] = (),
    schedules: int = 300,
    strategy: str = "portfolio",
) -> Explored:
    """Explores a function of a module, or a script, as `holds` explores a scenario.

    `args`: the arguments on the command line. `order`: gloo or nccl. `faults`: as in a scenario file. Raises what
    `holds` raises, and TypeError for a function that other processes cannot find by its name.
    """
    __tracebackhide__ = True
    from dpsim.campaign.properties import holds
    from dpsim.scenario import scenario_from
    from dpsim.scenario.params.files import allow
    from dpsim.torch.targets import split, title

    target = target_of(main) if callable(main) else str(main)
    allow(split(target)[0])
    params = {"target": target, "ranks": ranks, "args": list(args), "order": order}
    choice = {"name": "torch", "params": params}
    scenario = scenario_from({"name": title(target), "protocol": choice, "faults": list(faults)})
    return holds(scenario, schedules=schedules, strategy=strategy)


def target_of(main: Callable[..., Any]) -> str:
    """Returns the file and the name of a function, such as "train.py:main". Raises TypeError if it is no function of a
    module.
    """
    name = getattr(main, "__qualname__", "")
    file = inspect.getsourcefile(main)
    if not name.isidentifier() or file is None:
        raise TypeError(f"{name or main!r} is no function of a module; expected one that a file defines by `def`")
    return f"{file}:{name}"
