"""Makes the pickles of tensors equal in each run, because object collectives and stores send them.

In such a pickle, torch identifies the storage of a tensor by its memory address, which differs between runs. This
module identifies storages by numbers, as `torch.save` does in a file. torch reads both forms.
"""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import storage


def install() -> None:
    """Replaces the pickling of storages in this process and in its forks."""
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        kind.__reduce__ = _reduced


def _reduced(one: Any) -> Any:
    written = io.BytesIO()
    torch.save(one, written)
    return storage._load_from_bytes, (written.getvalue(),)
