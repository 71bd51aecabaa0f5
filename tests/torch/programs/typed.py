"""Programs of three ranks that reduce, gather and scatter many element types: correct ones, and ones with a mistake."""

import torch
import torch.distributed as dist

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64)
R = dist.ReduceOp

# ---- correct programs


def reductions(rank, size):
    """Rank r contributes r + 1. Each reduction runs with two types."""
    wanted = {R.SUM: 6, R.PRODUCT: 6, R.MAX: 3, R.MIN: 1, R.AVG: 2}
    for op, result in wanted.items():
        for dtype in (torch.bfloat16, torch.float16) if op == R.AVG else (torch.int8, torch.int64):
            mine = torch.full((2,), rank + 1, dtype=dtype)
            dist.all_reduce(mine, op=op)
            assert mine.tolist() == [result] * 2, (op, dtype, mine)
    total = torch.full((1,), 1 + 1j) * rank
    dist.all_reduce(total)
    assert total.item() == 3 + 3j
    piece = torch.zeros(1)
    dist.reduce_scatter(piece, [torch.full((1,), float(rank * at)) for at in range(size)], op=R.MAX)
    assert piece.item() == rank * (size - 1)


def bits(rank, size):
    for op, result in {R.BAND: 0, R.BOR: 3, R.BXOR: 0}.items():
        mine = torch.full((2,), rank + 1)
        dist.all_reduce(mine, op=op)
        assert mine.tolist() == [result] * 2, (op, mine)


def pieces(rank, size):
    """Gathers to rank 1 and scatters from it, with every type that gloo supports."""
    for dtype in FLOATS + WHOLE:
        parts = [torch.zeros(2, dtype=dtype) for _ in range(size)] if rank == 1 else None
        dist.gather(torch.tensor([0, rank]).to(dtype), parts, dst=1)
        wanted = [torch.tensor([0, at]).to(dtype) for at in range(size)]
        assert rank != 1 or all(map(torch.equal, parts, wanted))
        mine = torch.zeros(1, dtype=dtype)
        dist.scatter(mine, [torch.tensor([at]).to(dtype) for at in range(size)] if rank == 1 else None, src=1)
        assert mine.tolist() == torch.tensor([rank]).to(dtype).tolist()


def refused(rank, size):
    """torch raises on every rank, and no rank waits."""
    for op, dtype in (R.SUM, torch.int16), (R.BAND, torch.float32):
        try:
            dist.all_reduce(torch.ones(1, dtype=dtype), op=op)
        except RuntimeError:
            continue
        raise AssertionError(f"{op} of {dtype} was accepted")
    dist.barrier()


# ---- programs with a mistake


def gather_left_out(rank, size):
    if rank != 1:
        dist.gather(torch.zeros(2), [torch.zeros(2) for _ in range(size)] if rank == 0 else None, dst=0)
    dist.barrier()


def scatter_of_another_root(rank, size):
    root = 1 if rank == 1 else 0
    dist.scatter(torch.zeros(1), [torch.zeros(1)] * size if rank == root else None, src=root)


def another_reduction(rank, size):
    dist.all_reduce(torch.ones(1, dtype=torch.bfloat16), op=R.MAX if rank == 1 else R.SUM)


def gather_of_another_type(rank, size):
    dtype = torch.int64 if rank == 2 else torch.int32
    dist.gather(torch.zeros(2, dtype=dtype), [torch.zeros(2, dtype=dtype)] * size if rank == 0 else None, dst=0)
