"""Tensors as bytes, and back.

    block = content(t)              # its elements in order, whatever its strides
    fill(t, block)                  # the same, into a tensor of any strides

An element type is named as torch names it, without its prefix: "bfloat16". Complex numbers travel as pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dpsim.torch.child.uncovered import NotCovered


def named(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def checked(tensor: Any) -> Any:
    """The tensor, if its memory is a CPU's and dense. Raises NotCovered."""
    if tensor.device.type != "cpu":
        raise NotCovered(f"a tensor on {tensor.device}")
    if tensor.layout is not torch.strided:
        raise NotCovered(f"a tensor of layout {tensor.layout}")
    return tensor


def in_reals(tensor: Any) -> Any:
    """The tensor with pairs of real numbers for complex ones: so torch reduces them."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def content(tensor: Any) -> bytes:
    """The bytes of its elements, in order."""
    flat = checked(tensor).detach().contiguous()
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj())
    if flat.is_neg():
        flat = flat.resolve_neg()
    flat = flat.reshape(-1)
    if flat.numel() and flat.stride(0) != 1:  # one element, which was expanded
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def fill(tensor: Any, block: bytes) -> None:
    """Put elements into a tensor, as many as it has."""
    if not block:
        return
    with torch.no_grad():
        tensor.copy_(read(block, tensor.dtype).view(tensor.shape))


def read(block: bytes, dtype: Any) -> Any:
    """A flat tensor of the elements in a block."""
    return torch.frombuffer(bytearray(block), dtype=torch.uint8).view(dtype)


def cut(block: bytes, count: int) -> list[bytes]:
    """A block in `count` equal pieces."""
    size = len(block) // count
    return [block[at * size : (at + 1) * size] for at in range(count)]


def chunks(tensor: Any, count: int) -> list[Any]:
    """Equal pieces of a tensor, as views of it where it is contiguous."""
    if not tensor.numel():
        return [tensor.reshape(-1)] * count
    if tensor.numel() % count:
        raise ValueError(f"{tensor.numel()} elements; expected a multiple of the {count} ranks of the group")
    return list((tensor.view(-1) if tensor.is_contiguous() else tensor.reshape(-1)).chunk(count))


def split(tensor: Any, sizes: Any, count: int) -> list[Any]:
    """Pieces of these sizes, or `count` equal ones."""
    return list(tensor.split([int(one) for one in sizes])) if sizes else list(tensor.chunk(count))


def alike(call: str, parts: Sequence[Any], one: Any, count: int) -> list[Any]:
    """The pieces of all members at the root. Raises ValueError, as torch does, unless each is like the root's own."""
    if len(parts) != count:
        raise ValueError(f"ProcessGroup::{call}: {len(parts)} tensors at the root; expected {count}, one a rank")
    for part in parts:
        if (part.numel(), part.dtype) != (one.numel(), one.dtype):
            raise ValueError(
                f"ProcessGroup::{call}: a tensor of {part.numel()} {part.dtype} at the root; expected "
                f"{one.numel()} {one.dtype}"
            )
    return list(parts)
