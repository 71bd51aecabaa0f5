"""Pickles of tensors that are the same in each run: object collectives and stores send them.

In such a pickle, torch names the storage of a tensor by its address in memory. This module names storages by numbers,
as `torch.save` does in a file, and torch reads both.
"""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import storage


def install() -> None:
    """For all storages of this process, and of those that it forks."""
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        kind.__reduce__ = _reduced


def _reduced(one: Any) -> Any:
    written = io.BytesIO()
    torch.save(one, written)
    return storage._load_from_bytes, (written.getvalue(),)
