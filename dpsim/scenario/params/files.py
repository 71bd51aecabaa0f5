"""Parameters that name files. A relative file starts from the folder of the scenario file.

    class Params(BaseModel):
        target: Annotated[str, OfFolder()]

`OfFolder` marks a field that names a file. The program receives the path relative to the working folder. A replay token
may come from another person, so it must not open a file. dpsim refuses a token that names one, unless the user of this
process named the same file (`allow`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel


class OfFolder:
    """Marks a text field that names a file. `file_of`: extracts the file from a text with more in it, such as
    train.py:main.
    """

    def __init__(self, file_of: Callable[[str], str] = str) -> None:
        self.file_of = file_of


_allowed: set[str] = set()


def allow(file: str) -> None:
    """Allows replay tokens to name this file, because the user of this process named it."""
    _allowed.add(file)


def allow_files_of(params: Any, fields: Collection[str]) -> None:
    """Allows replay tokens to name the files in these fields, because the user of this process chose them."""
    for name, (text, mark) in _marked(params).items():
        if name in fields:
            allow(mark.file_of(text))


def _marked(params: Any) -> dict[str, tuple[str, OfFolder]]:
    if not isinstance(params, BaseModel):
        return {}
    marks = ((name, one) for name, field in type(params).model_fields.items() for one in field.metadata)
    return {name: (getattr(params, name), one) for name, one in marks if isinstance(one, OfFolder)}


def required_files(model: type[BaseModel]) -> list[str]:
    """Returns the fields of a model that name files and have no default."""
    fields = model.model_fields.items()
    return [
        name for name, one in fields if one.is_required() and any(isinstance(mark, OfFolder) for mark in one.metadata)
    ]


def files_of(params: Any) -> list[str]:
    """Returns the files that parameters name."""
    return [mark.file_of(text) for text, mark in _marked(params).values()]


def resolved(params: Any, plain: Any, base: Path | None) -> Any:
    """Returns the plain parameters `plain` with paths relative to `base`. `params`: the same parameters as a model."""
    if base is None:
        return plain
    return {**plain, **{name: str(base / text) for name, (text, _) in _marked(params).items()}}


def not_allowed(params: Any) -> list[str]:
    """Returns the files in the parameters that the user of this process did not name."""
    return [file for file in files_of(params) if file not in _allowed]
