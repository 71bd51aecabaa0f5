"""Tests the ports of spec chapter 8.3: each group has one port, which all its members draw; and mutants that break
this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dpsim.vllm.config import InitPorts, ParallelConfig, ParallelConfig033, Surroundings

OPEN = (29601, 29602, 29603, 29604, 29605)
AROUND = Surroundings(open_ports=OPEN)


class FirstIn(InitPorts):
    """Mutant M-CF-4: one side takes the first port of its list instead of the last."""

    def get_next_dp_init_port(self) -> int:
        return self.ports.pop(0) if self.ports else super().get_next_dp_init_port()


def engine_config(size: int = 2) -> ParallelConfig:
    return ParallelConfig.model_validate({"data_parallel_size": size}, context=AROUND)


def test_five_are_drawn_and_the_last_is_the_master_port() -> None:
    config = engine_config()
    assert config.data_parallel_master_port == OPEN[-1]
    assert config.data_parallel_master_port_list == OPEN[:-1]
    given = ParallelConfig.model_validate(
        {"data_parallel_size": 2, "_data_parallel_master_port_list": [1, 2]}, context=AROUND
    )
    assert (given.data_parallel_master_port, given.data_parallel_master_port_list) == (2, (1,))


def test_without_data_parallelism_nothing_is_drawn() -> None:
    alone = ParallelConfig.model_validate({}, context=AROUND)
    assert (alone.data_parallel_master_port, alone.data_parallel_master_port_list) == (0, ())
    elastic: dict[str, Any] = {
        "data_parallel_size": 2,
        "enable_elastic_ep": True,
        "enable_eplb": True,
        "enable_expert_parallel": True,
    }
    elastic["eplb_config"] = {"use_async": False}
    assert ParallelConfig033.model_validate(elastic, context=AROUND).data_parallel_master_port_list == ()
    nothing_local = {"data_parallel_size": 1, "data_parallel_size_local": 0}
    assert ParallelConfig.model_validate(nothing_local, context=AROUND).data_parallel_master_port == OPEN[-1]


def test_the_last_of_the_list_then_the_master_port_and_one_more_each_time() -> None:
    ports = InitPorts.of(engine_config())
    assert [ports.get_next_dp_init_port() for _ in range(7)] == [*OPEN[3::-1], OPEN[4], OPEN[4] + 1, OPEN[4] + 2]


# ---- a start-up: each process takes a port for each group

Of = Callable[[int], InitPorts]


def meet(engines: Of, size: int = 3, workers: int = 2) -> list[set[int]]:
    """Returns the ports that the members of each group take.

    The first group is that of the engines, before they spawn workers. The other two are groups of all workers.
    """
    owners = [engines(rank) for rank in range(size)]
    groups = [{ports.get_next_dp_init_port() for ports in owners}]
    spawned = [ports.copy() for ports in owners for _ in range(workers)]
    groups += [{ports.get_next_dp_init_port() for ports in spawned} for _ in range(2)]
    return groups


def met(groups: list[set[int]]) -> bool:
    """Returns whether I-CF-3 holds: the members of a group have one port, and no two groups share one."""
    return all(len(group) == 1 for group in groups) and max(Counter(p for group in groups for p in group).values()) == 1


def test_members_of_a_group_meet() -> None:
    config = engine_config()
    assert met(meet(lambda rank: InitPorts.of(config)))


def test_a_list_that_is_too_short_still_has_ports() -> None:
    assert met(meet(lambda rank: InitPorts([29601], 29605)))


def first_in_on_one_side(rank: int) -> InitPorts:
    return (FirstIn if rank == 1 else InitPorts).of(engine_config())


def post_init_twice_on_one_side(rank: int) -> InitPorts:
    """Mutant M-CF-12: one process runs ParallelConfig's post-init a second time."""
    config = engine_config()
    return InitPorts.of(config.post_init(AROUND) if rank == 1 else config)


@pytest.mark.parametrize("mutant", [first_in_on_one_side, post_init_twice_on_one_side])
def test_mutants_do_not_meet(mutant: Of) -> None:
    assert not met(meet(mutant))


def test_workers_spawned_before_the_engines_own_group_take_its_port() -> None:
    """Mutant M-ST-6 breaks I-CF-3, too: the worker takes the port of the engines' group, so two groups share a port."""
    config = engine_config()
    engine, worker = InitPorts.of(config), InitPorts.of(config)
    assert engine.get_next_dp_init_port() == worker.get_next_dp_init_port()


def test_post_init_is_not_idempotent() -> None:
    """Invariant I-CF-9: with data parallelism each post-init takes one more port; without it, a second one changes
    nothing.
    """
    config = engine_config()
    again = config.post_init(AROUND)
    assert again.data_parallel_master_port_list == config.data_parallel_master_port_list[:-1]
    assert again.data_parallel_master_port == config.data_parallel_master_port_list[-1]
    alone = ParallelConfig(tensor_parallel_size=2)
    assert alone.post_init(Surroundings()) == alone
