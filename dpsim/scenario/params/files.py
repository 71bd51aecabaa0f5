"""Files that parameters name: they are looked for in the folder of the scenario, as a trace of requests is.

    class Params(BaseModel):
        target: Annotated[str, OfFolder()]

A model says by this mark that a field names a file. The program gets the path as seen from the working folder. A token
may bring no such file, unless this process was given the same one (`allow`): the word of a stranger opens no file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel


class OfFolder:
    """Marks a field of text that names a file. `file_of`: takes the name out of a text that says more."""

    def __init__(self, file_of: Callable[[str], str] = str) -> None:
        self.file_of = file_of


_allowed: set[str] = set()


def allow(file: str) -> None:
    """The user of this process named this file: a token may name it too."""
    _allowed.add(file)


def allow_files_of(params: Any, fields: Collection[str]) -> None:
    """The user of this process chose these fields: a token may name their files too."""
    for name, (text, mark) in _marked(params).items():
        if name in fields:
            allow(mark.file_of(text))


def _marked(params: Any) -> dict[str, tuple[str, OfFolder]]:
    """Texts that name files, by field, with their marks."""
    if not isinstance(params, BaseModel):
        return {}
    marks = ((name, one) for name, field in type(params).model_fields.items() for one in field.metadata)
    return {name: (getattr(params, name), one) for name, one in marks if isinstance(one, OfFolder)}


def files_of(params: Any) -> list[str]:
    """The files that parameters name."""
    return [mark.file_of(text) for text, mark in _marked(params).values()]


def resolved(params: Any, plain: Any, base: Path | None) -> Any:
    """Plain parameters with the files of a folder."""
    if base is None:
        return plain
    return {**plain, **{name: str(base / text) for name, (text, _) in _marked(params).items()}}


def not_allowed(params: Any) -> list[str]:
    """Files that the user of this process did not name."""
    return [file for file in files_of(params) if file not in _allowed]
