"""Turns the elements of tensors into bytes for the pipe, and back.

    block = content(t)              # the elements in order, for any strides
    fill(t, block)                  # writes them into a tensor with any strides

Messages name an element type as torch does, without the prefix: "bfloat16". A complex number is a pair of real numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from dpsim.torch.child.uncovered import NotCovered


def named(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def checked(tensor: Any) -> Any:
    """Returns the tensor. Raises NotCovered unless it is on the CPU and dense."""
    if tensor.device.type != "cpu":
        raise NotCovered(f"a tensor on {tensor.device}")
    if tensor.layout is not torch.strided:
        raise NotCovered(f"a tensor of layout {tensor.layout}")
    return tensor


def in_reals(tensor: Any) -> Any:
    """Returns a complex tensor as pairs of reals, as torch reduces it, and another tensor unchanged."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def content(tensor: Any) -> bytes:
    """Returns the elements as bytes. The memory stays resizable for FSDP, which `Tensor.numpy` would end."""
    flat = checked(tensor).detach().contiguous()
    if flat.is_complex():
        flat = torch.view_as_real(flat.resolve_conj())
    if flat.is_neg():
        flat = flat.resolve_neg()
    flat = flat.reshape(-1)
    if flat.numel() and flat.stride(0) != 1:  # a tensor of one element that the program expanded
        flat = flat.clone(memory_format=torch.contiguous_format)
    if not flat.numel():
        return b""
    if not flat.data_ptr():
        raise NotCovered("a tensor without memory")
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())


def fill(tensor: Any, block: bytes) -> None:
    """Writes the elements of `block` into a tensor of their number. Does nothing for an empty block."""
    if not block:
        return
    with torch.no_grad():
        tensor.copy_(read(block, tensor.dtype).view(tensor.shape))


def read(block: bytes, dtype: Any) -> Any:
    """Returns a flat tensor with the elements in `block`."""
    return torch.frombuffer(bytearray(block), dtype=torch.uint8).view(dtype)


def cut(block: bytes, count: int) -> list[bytes]:
    """Cuts a block into `count` equal pieces."""
    size = len(block) // count
    return [block[at * size : (at + 1) * size] for at in range(count)]


def chunks(tensor: Any, count: int) -> list[Any]:
    """Returns `count` equal pieces; views if it is contiguous. Raises ValueError if the sizes differ."""
    if not tensor.numel():
        return [tensor.reshape(-1)] * count
    if tensor.numel() % count:
        raise ValueError(f"{tensor.numel()} elements; expected a multiple of the {count} ranks of the group")
    return list((tensor.view(-1) if tensor.is_contiguous() else tensor.reshape(-1)).chunk(count))


def split(tensor: Any, sizes: Any, count: int) -> list[Any]:
    """Returns the pieces of a tensor with these sizes, or `count` equal pieces if `sizes` is empty."""
    return list(tensor.split([int(one) for one in sizes])) if sizes else list(tensor.chunk(count))


def alike(call: str, parts: Sequence[Any], one: Any, count: int) -> list[Any]:
    """Returns `parts`, the tensors at the root. Raises ValueError, as torch does, for another number than `count`, or
    if one differs from `one` in size or type.
    """
    if len(parts) != count:
        raise ValueError(f"ProcessGroup::{call}: {len(parts)} tensors at the root; expected {count}, one a rank")
    for part in parts:
        if (part.numel(), part.dtype) != (one.numel(), one.dtype):
            raise ValueError(
                f"ProcessGroup::{call}: a tensor of {part.numel()} {part.dtype} at the root; expected "
                f"{one.numel()} {one.dtype}"
            )
    return list(parts)
