"""Programs that use further libraries of torch without changes. Each has a twin with one mistake of its user. `hsdp`
needs four ranks, the others two.
"""

import os
import tempfile
from collections import OrderedDict

import torch
import torch.distributed as dist
from torch import nn


def _mesh(*sizes, **more):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", sizes, **more)


def _hybrid(rank, size, batches):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    mesh = _mesh(2, size // 2, mesh_dim_names=("replicate", "shard"))
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    for _ in range(batches):
        model(torch.full((2, 4), float(rank))).sum().backward()


def hsdp(rank, size):
    _hybrid(rank, size, 2)


def hsdp_twin(rank, size):
    """The mistake: rank 1 has one batch less."""
    _hybrid(rank, size, 2 - (rank == 1))


def _wrapped(rank, batches):
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model = FullyShardedDataParallel(layers, device_id=torch.device("cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(batches):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def fsdp1(rank, size):
    _wrapped(rank, 2)


def fsdp1_twin(rank, size):
    """The mistake: rank 1 has one batch less."""
    _wrapped(rank, 2 - (rank == 1))


def differentiable(rank, size):
    from torch.distributed.nn import functional

    given = torch.ones(4, requires_grad=True)
    functional.all_reduce(given * (rank + 1)).sum().backward()
    assert given.grad[0] == size * (rank + 1)
    sum(functional.all_gather(torch.ones(2, requires_grad=True))).sum().backward()
    functional.broadcast(torch.ones(2, requires_grad=True), 0).sum().backward()
    functional.all_to_all_single(torch.zeros(size), torch.ones(size, requires_grad=True)).sum().backward()
    parts = [torch.ones(1, requires_grad=True) for _ in range(size)]
    functional.reduce_scatter(torch.zeros(1), parts).sum().backward()


def differentiable_twin(rank, size):
    """The mistake: rank 1 does not run backward, in which all ranks reduce again."""
    from torch.distributed.nn import functional

    loss = functional.all_reduce(torch.ones(4, requires_grad=True)).sum()
    if rank != 1:
        loss.backward()


def _hooked(hook, state=None, batches=4):
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 8))
    model.register_comm_hook(state, hook)
    for _ in range(batches):
        model(torch.ones(2, 8)).sum().backward()


def hooks(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    _hooked(default_hooks.fp16_compress_hook)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    _hooked(powerSGD_hook.powerSGD_hook, state)


def hooks_twin(rank, size):
    """The mistake: rank 1 starts to compress two batches later."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    begin = 2 + 2 * (rank == 1)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=begin)
    _hooked(powerSGD_hook.powerSGD_hook, state)


def _trained():
    from torch.distributed.fsdp import fully_shard

    model = nn.Linear(4, 4)
    fully_shard(model, mesh=_mesh(dist.get_world_size()))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def whole_state(rank, size):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

    model, optimizer = _trained()
    weights, moments = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments, options=options)


def whole_state_twin(rank, size):
    """The mistake: only rank 0 calls for the full state."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    model, optimizer = _trained()
    if rank == 0:
        get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))


def _local(period):
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    model = nn.Linear(2, 2)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = PostLocalSGDOptimizer(plain, PeriodicModelAverager(period, 1))
    for _ in range(4):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()


def local_sgd(rank, size):
    _local(2)


def local_sgd_twin(rank, size):
    """The mistake: rank 1 averages with another period."""
    _local(2 + 2 * (rank == 1))


def _hierarchical(periods):
    from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager

    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    averager = HierarchicalModelAverager(OrderedDict(periods))
    for _ in range(4):
        averager.average_parameters(model.parameters())


def hierarchical(rank, size):
    _hierarchical([(2, size)])


def hierarchical_twin(rank, size):
    """The mistake: rank 1 averages with another period."""
    _hierarchical([(2 + 2 * (rank == 1), size)])


def _met(rank, size):
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import create_rdzv_handler

    wanted = RendezvousParameters("static", "localhost:29556", "run", size, size, rank=rank, is_host=rank == 0)
    found = create_rdzv_handler(wanted).next_rendezvous()
    found.store.set(str(rank), "here")
    return found


def rendezvous(rank, size):
    found = _met(rank, size)
    found.store.get(str(1 - rank))
    dist.barrier()


def rendezvous_twin(rank, size):
    """The mistake: rank 0 ends, and with it the store, before rank 1 has read a key."""
    found = _met(rank, size)
    if rank:
        found.store.get("0")


def saved_later(rank, size):
    """Saves without coordination: each rank writes its own files."""
    from torch.distributed import checkpoint

    folder = os.path.join(tempfile.gettempdir(), f"saved_by_{rank}")
    checkpoint.async_save({"w": torch.ones(4) * rank}, checkpoint_id=folder, no_dist=True).result()
    state = {"w": torch.zeros(4)}
    checkpoint.load(state, checkpoint_id=folder, no_dist=True)
    assert state["w"][0] == rank
    dist.barrier()


def saved_later_twin(rank, size):
    """The mistake: rank 1 loads before its save has written anything."""
    from torch.distributed import checkpoint

    folder = os.path.join(tempfile.gettempdir(), f"saved_by_{rank}")
    if rank != 1:
        checkpoint.async_save({"w": torch.ones(4) * rank}, checkpoint_id=folder, no_dist=True).result()
    checkpoint.load({"w": torch.zeros(4)}, checkpoint_id=folder, no_dist=True)
    dist.barrier()


def saved_by_a_thread(rank, size):
    """A thread of the rank makes the collective calls of the save."""
    from torch.distributed import checkpoint

    folder = os.path.join(tempfile.gettempdir(), "saved")
    checkpoint.async_save({"w": torch.ones(4)}, checkpoint_id=folder).result()


def saved_by_a_thread_twin(rank, size):
    """The mistake: rank 1 saves nothing."""
    if rank != 1:
        saved_by_a_thread(rank, size)
