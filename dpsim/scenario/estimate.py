"""How large a run would be, asked before anything is made of it: a few characters of a file may ask for a huge one.

    output_tokens: 16000000     ->  about 16,000,000 steps, 256,000,000 records, 107 GB; expected at most 8 GB

A program estimates it from its arguments (`Program.estimate`). dpsim refuses a run that takes more memory than the
limit, whether a file, a trace or a stranger's token describes it. It announces a large run within the limit before the
run begins.

    allow(16_000_000_000, note)     # what `--memory 16GB` does; None: the usual limit
    refuse_enormous("big", program, args)

A program without an estimate has no bound here: then the progress line shows how far it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpsim.contract.program import Program, Unsuitable
from dpsim.contract.words import gigabytes
from dpsim.scenario.errors import ScenarioError, shown

MOST = 8_000_000_000
"""Bytes that a run may take, unless the user allows more."""

LARGE = 500_000_000
"""Bytes of a run from which on it is announced."""

MOST_OF_TOKEN = 500_000_000
"""Bytes of a run for which a word in a log may ask."""

UNITS = {"MB": 10**6, "GB": 10**9}


def _to_nobody(text: str) -> None:
    """Where no command listens."""


@dataclass
class _Allowed:
    """Of this process."""

    most: int = MOST
    tell: Callable[[str], None] = _to_nobody
    told: str = ""


_allowed = _Allowed()


def allow(most: int | None, tell: Callable[[str], None] = _to_nobody) -> None:
    """Refuse only runs that take more bytes than `most`. `tell` gets the line about a large run."""
    _allowed.most, _allowed.tell, _allowed.told = MOST if most is None else most, tell, ""


def refuse_enormous(name: str, program: type[Program[Any]], args: Any) -> None:
    """Raise ScenarioError where a run with these arguments takes more memory than is allowed."""
    if program.estimate is Program.estimate:
        return
    estimate = program().estimate(program.with_params(args))
    if estimate is None:
        return
    if estimate.bytes > _allowed.most:
        most, cure = gigabytes(_allowed.most), "make it smaller, or allow more with --memory"
        raise ScenarioError(f"{name}: {estimate}; expected at most {most}: {cure}")
    line = f"{name}: {estimate}"
    if estimate.bytes > LARGE and line != _allowed.told:
        _allowed.told = line
        _allowed.tell(line)


def above_token(program: type[Program[Any]], args: Any) -> str:
    """What is too large where a token asks for it; empty if nothing is, or if the program does not know."""
    if program.estimate is Program.estimate:
        return ""
    try:
        estimate = program().estimate(program.with_params(args))
    except Unsuitable:  # a run says why
        return ""
    if estimate is None or estimate.bytes <= MOST_OF_TOKEN:
        return ""
    return f"{estimate}; expected at most {gigabytes(MOST_OF_TOKEN)}"


def parse_memory(text: str) -> int:
    """Bytes.

    >>> parse_memory("16GB"), parse_memory("500 MB")
    (16000000000, 500000000)

    Raises ValueError for anything else.
    """
    match = re.fullmatch(r"([0-9]{1,9}) ?(MB|GB)", text.strip())
    if match is None:
        raise ValueError(f"{shown(text)} is no size of memory; expected e.g. 16GB or 500MB")
    return int(match[1]) * UNITS[match[2]]
