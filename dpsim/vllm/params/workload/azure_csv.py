"""Reads the Azure LLM inference trace: a public list of real requests with their arrival times and sizes.

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:17:03.9799600,4808,10
    2023-11-16 18:17:04.0319600,3180,8

An arrival is the exact number of nanoseconds after the earliest row. Rows need not be sorted; `limit` counts in the
order of the file. The files of 2023 have seven decimals and CRLF line ends. Those of 2024 have up to six decimals and
the time zone +00:00. The reader accepts both. It refuses any other text with the line number, because a guessed row
would shift every later batch.

It also refuses rows with zero tokens, which no scheduler would finish. Source: github.com/Azure/AzurePublicDataset
(CC-BY), AzureLLMInferenceDataset2023.md and 2024.md; Patel et al., Splitwise (ISCA 2024).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import BinaryIO

from dpsim.scenario.errors import ScenarioError, refuse_pipes, shown
from dpsim.vllm.config import MAX_TOKENS
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.workload.model import MAX_REQUESTS

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"

_LONGEST_LINE = 1000
_EPOCH = date(1970, 1, 1).toordinal()
_DAY, _TIME = "([0-9]{4}-[0-9]{2}-[0-9]{2})", "([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])"
_TIMESTAMP = re.compile(rf"{_DAY}[ T]{_TIME}(?:\.([0-9]{{1,9}}))?(?:Z|\+00:00)?")
_NUMBER = re.compile(r"[0-9]{1,20}")


class _BadRow(Exception):
    """An error in a row, without file and line number."""


def read_azure_csv(path: Path, limit: int | None = None) -> list[Request]:
    """The first `limit` requests, or all. ScenarioError with file, line, and what was expected there."""
    refuse_pipes(path, f"a CSV file with the header {HEADER}")
    try:
        with path.open("rb") as file:
            rows = _rows(path, file, limit)
    except ScenarioError:
        raise
    except IsADirectoryError:
        raise ScenarioError(f"{path}: a folder; expected a CSV file with the header {HEADER}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ScenarioError(f"{path}: cannot be read: {reason}; expected a readable CSV file") from None
    start = min(when for when, _, _ in rows)
    return [Request(when - start, prompt, output) for when, prompt, output in rows]


def _rows(path: Path, file: BinaryIO, limit: int | None) -> list[tuple[int, int, int]]:
    rows: list[tuple[int, int, int]] = []
    number = 0
    for number, raw in enumerate(_raw_lines(file), start=1):
        try:
            fields = _fields(raw, number)
            if number == 1:
                _check_header(fields)
            elif fields:
                rows.append(_row(fields))
        except _BadRow as error:
            raise ScenarioError(f"{path}:{number}: {error}") from None
        if limit is not None and len(rows) >= limit:
            break
        if number > MAX_REQUESTS + 1:  # empty ones count
            raise ScenarioError(f"{path}:{number}: more than {MAX_REQUESTS} requests; expected a limit in the workload")
    if not rows:
        what = "no requests after the header" if number else "an empty file"
        raise ScenarioError(f"{path}:{number or 1}: {what}; expected the header {HEADER}, then one row a request")
    return rows


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines, cut after a maximum length, so that a file without line ends does not fill the memory."""
    while line := file.readline(_LONGEST_LINE + 1):
        yield line


def _fields(raw: bytes, number: int) -> list[str]:
    if len(raw) > _LONGEST_LINE:
        raise _BadRow(f"a line of more than {_LONGEST_LINE} characters; expected three short fields")
    try:
        text = raw.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").decode("ascii")
    except UnicodeDecodeError as error:
        raise _BadRow(f"the byte 0x{raw[error.start]:02x} in a row; expected plain ASCII text, {HEADER}") from None
    text = text.strip("\r\n\t ")
    if not text.isprintable():
        raise _BadRow(f"control characters in {shown(text)}; expected plain text, {HEADER}")
    return [_unquoted(field.strip()) for field in text.split(",")] if text else []


def _unquoted(field: str) -> str:
    return field[1:-1] if len(field) > 1 and field[0] == field[-1] == '"' else field


def _check_header(fields: list[str]) -> None:
    header = ",".join(fields)
    if header == HEADER:
        return
    hint = "; the header line is missing" if _TIMESTAMP.fullmatch(fields[0] if fields else "") else ""
    raise _BadRow(f"wrong header {shown(header, 100)}; expected {HEADER}{hint}")


def _row(fields: list[str]) -> tuple[int, int, int]:
    if len(fields) != 3:
        count = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
        raise _BadRow(f"{count} in {shown(','.join(fields))}; expected 3: {HEADER}")
    return _nanoseconds(fields[0]), _tokens("ContextTokens", fields[1]), _tokens("GeneratedTokens", fields[2])


def _nanoseconds(text: str) -> int:
    """Nanoseconds since 1970, UTC. Without `strptime`, which takes most of the time for a large file."""
    match = _TIMESTAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, hours, minutes, seconds, fraction = match.groups()
        since = date.fromisoformat(day).toordinal() - _EPOCH
    except ValueError:
        raise _BadRow(f"TIMESTAMP {shown(text)} is no time; expected e.g. 2023-11-16 18:17:03.9799600") from None
    whole = ((since * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 10**9 + int((fraction or "0").ljust(9, "0"))


def _tokens(column: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise _BadRow(f"{column} {shown(text)} is no whole number; expected 1 to {MAX_TOKENS}")
    tokens = int(text)
    if not 1 <= tokens <= MAX_TOKENS:
        raise _BadRow(f"{column} {tokens} is out of range; expected 1 to {MAX_TOKENS}")
    return tokens
