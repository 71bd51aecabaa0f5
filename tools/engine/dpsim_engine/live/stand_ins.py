"""Replacements for what vLLM's functions use: settings as plain fields, and an all-reduce without peers.

A rank's agreement function is pure except for one all-reduce. So the check calls the function of each rank twice. The
first call ends when the rank passes its tensor to the all-reduce. The check adds the tensors of all ranks. In the
second call, the all-reduce writes this sum into the tensor, and the function returns its answer.

    reduction = Reduction()
    with replaced(module, dist=reduction):
        sent, _ = reduction.first(lambda: ask(rank))       # the tensor of the rank
        answer = reduction.second(lambda: ask(rank), sum)  # the answer of the rank
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from dpsim_engine.comparison import Row

Table = list[list[int]]

REFUSALS = (AssertionError, ValueError, IndexError)
"""The exceptions that vLLM's pure functions raise on purpose. Any other exception means that the call is wrong."""


def refusal(error: BaseException, when: str = "") -> Row:
    described = {"raises": type(error).__name__, "message": str(error)[:200]}
    return {**described, "when": when} if when else described


@contextmanager
def replaced(place: ModuleType, **stand_ins: Any) -> Iterator[None]:
    """Replaces names of a module in a with block. Raises ImportError for a name that the module does not have."""
    missing = [name for name in stand_ins if not hasattr(place, name)]
    if missing:
        raise ImportError(f"{place.__name__} has no {', '.join(missing)}")
    before = {name: getattr(place, name) for name in stand_ins}
    vars(place).update(stand_ins)
    try:
        yield
    finally:
        vars(place).update(before)


class _Sent(BaseException):
    """A rank sends its tensor. It is no Exception, so that no handler between catches it."""


class Reduction:
    """A replacement for torch.distributed: an all-reduce that keeps the sent tensor, or returns a given sum."""

    def __init__(self) -> None:
        self._sent: Table | None = None
        self._sum: Table | None = None

    def all_reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if self._sum is None:
            self._sent = [[int(value) for value in row] for row in tensor]
            raise _Sent
        for number, row in enumerate(self._sum):
            for column, value in enumerate(row):
                tensor[number][column] = value

    def first(self, ask: Callable[[], Any]) -> tuple[Table | None, Any]:
        """Returns the tensor that a rank sends, and None; or None and the answer, if the rank sends nothing."""
        self._sent = self._sum = None
        try:
            return None, ask()
        except _Sent:
            return self._sent, None

    def second(self, ask: Callable[[], Any], total: Table) -> Any:
        """Returns the answer of a rank whose all-reduce returns `total`."""
        self._sum = total
        return ask()


def dp_group() -> SimpleNamespace:
    """Returns a data-parallel group on the host, in which all ranks are alive."""
    return SimpleNamespace(device="cpu", device_group=None, cpu_group=None, dead_dp_ranks=set())


def parallel_config(config: Row, ranks: int, rank: int) -> SimpleNamespace:
    """Returns the fields of a ParallelConfig that an agreement reads."""
    return SimpleNamespace(
        **config,
        data_parallel_size=ranks,
        data_parallel_rank=rank,
        tensor_parallel_size=1,
        use_ubatching=config["enable_dbo"] or config["ubatch_size"] > 1,
        num_ubatches=2 if config["enable_dbo"] else config["ubatch_size"],
        disable_nccl_for_dp_synchronization=True,
        enable_fault_tolerance=False,
    )


def plain(numbers: Any) -> list[int] | None:
    """Returns a tensor of one dimension as a list of numbers; None stays None."""
    return None if numbers is None else [int(number) for number in numbers]
