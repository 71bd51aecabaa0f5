"""Estimates the memory of a run before it begins, because a few characters in a scenario file may require a huge run.

    output_tokens: 16000000     ->  about 16,000,000 steps, 256,000,000 records, 107 GB; expected at most 8 GB

A program estimates the memory from its arguments (`Program.estimate`). dpsim refuses a run above the limit, whether a
scenario file, a trace or a replay token from another person describes it. It prints a line before a large run within
the limit.

    allow(16_000_000_000, note)     # what `--memory 16GB` does; None: the default limit
    refuse_enormous("big", program, args)

A program without an estimate has no limit here. For such a run the user only sees the progress line.
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
"""How many bytes a run may take, unless the user allows more."""

LARGE = 500_000_000
"""From how many bytes on dpsim prints a line before the run."""

MOST_OF_TOKEN = 500_000_000
"""How many bytes the run of a replay token may take."""

UNITS = {"MB": 10**6, "GB": 10**9}


def _ignore_text(text: str) -> None:
    """Ignores the line, because no command prints it."""


@dataclass
class _Allowed:
    most: int = MOST
    tell: Callable[[str], None] = _ignore_text
    told: str = ""


_allowed = _Allowed()


def allow(most: int | None, tell: Callable[[str], None] = _ignore_text) -> None:
    """The limit of this process in bytes; None: the default. `tell`: prints the line before a large run."""
    _allowed.most, _allowed.tell, _allowed.told = MOST if most is None else most, tell, ""


def refuse_enormous(name: str, program: type[Program[Any]], args: Any) -> None:
    """Raises ScenarioError if a run with these arguments takes more memory than the limit."""
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
    """Returns why a run is too large for a replay token, or "" if it is not, or if the program has no estimate."""
    if program.estimate is Program.estimate:
        return ""
    try:
        estimate = program().estimate(program.with_params(args))
    except Unsuitable:  # the run reports the reason
        return ""
    if estimate is None or estimate.bytes <= MOST_OF_TOKEN:
        return ""
    return f"{estimate}; expected at most {gigabytes(MOST_OF_TOKEN)}"


def parse_memory(text: str) -> int:
    """Returns the bytes in a text such as "16GB" or "500 MB". Raises ValueError for any other text."""
    match = re.fullmatch(r"([0-9]{1,9}) ?(MB|GB)", text.strip())
    if match is None:
        raise ValueError(f"{shown(text)} is no size of memory; expected e.g. 16GB or 500MB")
    return int(match[1]) * UNITS[match[2]]
