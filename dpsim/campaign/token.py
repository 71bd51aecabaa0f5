"""Token: encodes a failure as one word for a command line: the scenario, the failing schedule, and how it was explored.

    dpsim1.eNpVjk0OwiAQha8yYd0m9W_jNdxpY6hMK4oMAQYX...

`pytest NODEID --dpsim-replay=TOKEN` and `dpsim replay TOKEN --module tests/test_x.py` repeat the run without any file.
The word is "dpsim1." and URL-safe base64: four bytes of the SHA-256 of a JSON object, and the compressed object.

A token is data and never code. A word from a log may be malicious, so `read_token` trusts nothing in it. It limits the
length (`LONGEST`) and the decompressed size (`MOST_BYTES`), validates each field, and reads the scenario like a
scenario file. A short text may describe a huge program, so it checks the size before it builds anything (`beyond`). It
refuses a scenario that names a file, unless the replayed test names the same file (`own_files`).

    >>> read_token("dpsim1.nonsense")
    Traceback (most recent call last):
    ...
    dpsim.campaign.token.TokenError: the token 'dpsim1.nonsense' is damaged; expected the whole word as it was printed
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from dpsim.contract.registry import protocol
from dpsim.contract.words import BadInput
from dpsim.explore import LONGEST as MOST_STEPS
from dpsim.explore import STRATEGIES
from dpsim.scenario import Scenario, ScenarioError, dump_scenario, parse_scenario
from dpsim.scenario.errors import shown
from dpsim.scenario.estimate import above_token
from dpsim.scenario.params.files import allow, files_of
from dpsim.trace.schedule import present

PREFIX = "dpsim1."
LONGEST = 16_384
"""The most characters of a token. A command line allows more, but a log should not have it."""

MOST_BYTES = 1 << 20
MOST_SCHEDULES = 100_000
LONGEST_WORD = 1_000
CHECKED = 4


class TokenError(BadInput):
    """A word that is no token, or none that can run here. The text is one line."""


class Token(NamedTuple):
    """A failure: the failing schedule (`steps`), the class of its finding, and how it was found."""

    scenario: Scenario
    steps: tuple[str, ...]
    klass: str
    strategy: str
    schedules: int

    def __str__(self) -> str:
        """Returns the word; empty if it would be refused: too long, not printable, or of too large a program."""
        fields = {**self._asdict(), "scenario": dump_scenario(self.scenario), "steps": list(self.steps)}
        if beyond(self.scenario) or problem_of(fields):
            return ""
        content = json.dumps(fields, separators=(",", ":")).encode()
        packed = hashlib.sha256(content).digest()[:CHECKED] + zlib.compress(content, 9)
        word = PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")
        return word if len(word) <= LONGEST and len(content) <= MOST_BYTES else ""


def is_token(word: str) -> bool:
    """Returns whether a word looks like a token of any version."""
    return re.match(r"dpsim\d+\.", word) is not None


def read_token(word: str, test: Path | None = None) -> Token:
    """Returns a token's failure, for the file of a `test`. Raises TokenError, also for an unregistered protocol."""
    fields = fields_of(word)
    try:
        scenario = parse_scenario(fields["scenario"], "the token's scenario")
    except ScenarioError as error:
        raise TokenError(str(error).partition("\n")[0]) from None
    if test is not None:
        for file in own_files(scenario, test):
            allow(file)
    if too_large := beyond(scenario):
        raise TokenError(f"the token {shown(word, 40)}: {too_large}")
    return Token(**{**fields, "scenario": scenario, "steps": tuple(map(present, fields["steps"]))})


def own_files(scenario: Scenario, test: Path) -> list[str]:
    """Returns the files of a scenario that a test names in its text, is, or has imported."""
    imported = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    text = test.read_text("utf-8", "replace")
    return [
        one for one in files_of(getattr(scenario.protocol, "params", None)) if one in imported or Path(one).name in text
    ]


def beyond(scenario: Scenario) -> str:
    """Returns what in a scenario is too large for a token; empty if nothing is. Opens no file."""
    return scenario.beyond() or above_token(protocol(scenario.protocol.name).program, scenario.arguments(None))


def fields_of(word: str) -> dict[str, Any]:
    """Returns the validated fields. The scenario is still text, because its names may not be registered yet."""
    return _checked(word, _unpacked(word))


def _unpacked(word: str) -> Any:
    named = f"the token {shown(word, 40)}"
    if not is_token(word):
        raise TokenError(f"{named} is none; expected a word that begins with {PREFIX!r}")
    if not word.startswith(PREFIX):
        raise TokenError(f"{named} is of another version of dpsim; expected one that begins with {PREFIX!r}")
    if len(word) > LONGEST:
        raise TokenError(f"{named} is too long: {len(word):,} characters; expected at most {LONGEST:,}")
    damaged = TokenError(f"{named} is damaged; expected the whole word as it was printed")
    body = word.removeprefix(PREFIX)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", body):
        raise damaged
    try:
        packed = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        unzip = zlib.decompressobj()
        content = unzip.decompress(packed[CHECKED:], MOST_BYTES)
        if unzip.unconsumed_tail:
            raise TokenError(f"{named} expands to more than {MOST_BYTES:,} bytes; expected a small scenario")
        if not unzip.eof or unzip.unused_data or hashlib.sha256(content).digest()[:CHECKED] != packed[:CHECKED]:
            raise damaged
        return json.loads(content)
    except (ValueError, RecursionError, zlib.error) as error:
        raise (error if isinstance(error, TokenError) else damaged) from None


def _checked(word: str, fields: Any) -> dict[str, Any]:
    """Returns the validated fields of a token. The scenario is still text."""
    named = f"the token {shown(word, 40)}"
    if not isinstance(fields, dict) or fields.keys() != set(Token._fields):
        raise TokenError(f"{named} has other fields; expected {', '.join(Token._fields)}")
    if problem := problem_of(fields):
        raise TokenError(f"{named}: {problem}")
    return fields


def problem_of(fields: dict[str, Any]) -> str:
    """Returns the first field that no token may have, and what was expected; empty if all may be in one."""
    steps, schedules = fields["steps"], fields["schedules"]
    wrong = {
        "scenario: expected text": not isinstance(fields["scenario"], str),
        f"steps: expected a list of up to {MOST_STEPS:,} printable words": not isinstance(steps, list)
        or len(steps) > MOST_STEPS
        or not all(map(_is_word, steps)),
        "klass: expected a class of findings": not _is_word(fields["klass"]),
        f"strategy: expected one of {', '.join(STRATEGIES)}": not isinstance(fields["strategy"], str)
        or fields["strategy"] not in STRATEGIES,
        f"schedules: expected a number from 1 to {MOST_SCHEDULES:,}": type(schedules) is not int
        or not 1 <= schedules <= MOST_SCHEDULES,
    }
    return next((what for what, so in wrong.items() if so), "")


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_WORD and value.isprintable()
