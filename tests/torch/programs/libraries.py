"""Programs of two ranks that use libraries of torch without changes. Each has a twin with one mistake of its user."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn


def _wrapped(module, **more):
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(module, **more)


def ddp(rank, size):
    torch.manual_seed(rank)
    model = _wrapped(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), bucket_cap_mb=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.full((2, 4), float(rank + step))).sum().backward()
        optimizer.step()
    found = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(found, model.module[2].bias.detach().clone())
    assert all(torch.equal(one, found[0]) for one in found)


def ddp_twin(rank, size):
    """The mistake: rank 1 does not use one of the parameters."""

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, given):
            return self.first(given) if rank == 1 else self.second(self.first(given))

    model = _wrapped(Part(), bucket_cap_mb=1e-5)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()


def join(rank, size):
    from torch.distributed.algorithms.join import Join

    model = _wrapped(nn.Linear(2, 2))
    with Join([model]):
        for _ in range(2 + (rank == 0)):
            model(torch.ones(1, 2)).sum().backward()


def join_twin(rank, size):
    """The mistake: rank 1 leaves the context early."""
    from torch.distributed.algorithms.join import Join

    model = _wrapped(nn.Linear(2, 2))
    if rank == 1:
        model(torch.ones(1, 2)).sum().backward()
        return
    with Join([model]):
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()


def _mesh(size):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (size,))


def fsdp2(rank, size):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    mesh = _mesh(size)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def fsdp2_twin(rank, size):
    """The mistake: rank 1 has one batch less."""
    from torch.distributed.fsdp import fully_shard

    model = nn.Linear(4, 4)
    fully_shard(model, mesh=_mesh(size))
    for _ in range(2 - (rank == 1)):
        model(torch.ones(2, 4)).sum().backward()


def dtensor(rank, size):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = _mesh(size)
    big = torch.arange(size * size * 4.0).view(size * 2, size * 2)
    rows = distribute_tensor(big.clone(), mesh, [Shard(0)])
    assert torch.equal(rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local(), big)
    sums = DTensor.from_local(torch.ones(size, 2), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
    assert sums.to_local()[0, 0] == size


def dtensor_twin(rank, size):
    """The mistake: rank 1 does not redistribute its rows."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = _mesh(size)
    rows = distribute_tensor(torch.arange(8.0).view(4, 2), mesh, [Shard(0)])
    if rank != 1:
        rows.redistribute(mesh, [Replicate()]).to_local()


def tensor_parallel(rank, size):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(0)
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    model = parallelize_module(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)), _mesh(size), plan)
    model(torch.ones(2, 4)).sum().backward()


def tensor_parallel_twin(rank, size):
    """The mistake: rank 1 has another plan."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"0": ColwiseParallel(), **({} if rank == 1 else {"1": RowwiseParallel()})}
    model = parallelize_module(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)), _mesh(size), plan)
    model(torch.ones(2, 4)).sum().backward()


def checkpoint(rank, size):
    from torch.distributed import checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = _mesh(size)
    folder = os.path.join(tempfile.gettempdir(), "saved")
    big = torch.arange(size * 4.0).view(size * 2, 2)
    dcp.save({"w": distribute_tensor(big, mesh, [Shard(0)]), "step": 3}, checkpoint_id=folder)
    state = {"w": distribute_tensor(torch.zeros_like(big), mesh, [Shard(0)]), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    assert state["step"] == 3
    assert torch.equal(state["w"].full_tensor(), big)


def checkpoint_twin(rank, size):
    """The mistake: only rank 0 saves."""
    from torch.distributed import checkpoint as dcp

    if rank == 0:
        dcp.save({"step": 3}, checkpoint_id=os.path.join(tempfile.gettempdir(), "saved"))
    dist.barrier()


def zero(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    torch.manual_seed(0)
    model = _wrapped(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.consolidate_state_dict(0)


def zero_twin(rank, size):
    """The mistake: only rank 0 consolidates the state, to which all ranks have to contribute."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = _wrapped(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if rank == 0:
        optimizer.consolidate_state_dict(0)


def averaging(rank, size):
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    averager = PeriodicModelAverager(period=2, warmup_steps=1)
    for _ in range(4):
        averager.average_parameters(model.parameters())


def averaging_twin(rank, size):
    """The mistake: rank 1 averages with another period."""
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    averager = PeriodicModelAverager(period=2 + 2 * (rank == 1), warmup_steps=0)
    for _ in range(4):
        averager.average_parameters(model.parameters())


def elastic(rank, size):
    """Uses the launcher's store, which outlives every rank."""
    from torch.distributed.distributed_c10d import _get_default_store
    from torch.distributed.elastic.utils.store import barrier, synchronize

    store = _get_default_store()
    found = synchronize(store, str(rank).encode(), rank, size, "x")
    assert found[-1] == str(size - 1).encode()
    barrier(store, size, "b")


def elastic_twin(rank, size):
    """The mistake: it uses a store of rank 0, which may end before rank 1 has read its key."""
    from torch.distributed.elastic.utils.store import barrier

    barrier(dist.TCPStore("localhost", 29513, size, rank == 0), size, "b")
