"""A failure as one word, for a command line: a scenario, the schedule that broke it, and how it was explored.

    dpsim1.eNpVjk0OwiAQha8yYd0m9W_jNdxpY6hMK4oMAQYX...

The word and the protocol's source are enough to make the failure again: no file is needed. It is for logs of other
machines. `pytest NODEID --dpsim-replay=TOKEN` and `dpsim replay TOKEN --module tests/test_x.py` make the run again.

A token is plain data, never code: "dpsim1." and, in URL-safe base64, four bytes of the SHA-256 of a JSON object and
the object itself, compressed. A word from a log may hold anything, so `read_token` checks it as it checks a file. It
has at most `LONGEST` characters, which expand to at most `MOST_BYTES`, whatever they say of themselves. The scenario in
it is the text of a scenario file, and the reader of such files reads it. Every other field is checked, and is
printable. A few bytes may ask for a huge world, so `read_token` bounds its size before it makes anything of it
(`beyond`). The word of a stranger opens no file, so a scenario that names one is refused. A file is the user's own if
the test that is replayed names it (`own_files`). Whatever the word is, the outcome is a `Token` or a `TokenError` in
one line.

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
"""Characters: of what is printed, and of what is read. A word of a command line may be longer, a log is not to be."""

MOST_BYTES = 1 << 20
MOST_SCHEDULES = 100_000
LONGEST_WORD = 1_000
CHECKED = 4


class TokenError(BadInput):
    """A word that is no token, or none that can be run here. The text is one line."""


class Token(NamedTuple):
    """A failure. `steps`: the schedule that shows it, word by word. `klass`: that of its finding. `strategy` and
    `schedules`: how it was found, and how it is looked for again.
    """

    scenario: Scenario
    steps: tuple[str, ...]
    klass: str
    strategy: str
    schedules: int

    def __str__(self) -> str:
        """The word; empty where it would be refused: too long, not printable, or of too large a world."""
        if beyond(self.scenario) or not all(map(_is_word, self.steps)):
            return ""
        fields = {**self._asdict(), "scenario": dump_scenario(self.scenario)}
        content = json.dumps(fields, separators=(",", ":")).encode()
        packed = hashlib.sha256(content).digest()[:CHECKED] + zlib.compress(content, 9)
        word = PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")
        return word if len(word) <= LONGEST and len(content) <= MOST_BYTES else ""


def is_token(word: str) -> bool:
    """Whether a word means to be a token, of whatever version."""
    return re.match(r"dpsim\d+\.", word) is not None


def read_token(word: str, test: Path | None = None) -> Token:
    """The failure that a word stands for. `test`: the file of the test that it replays. Raises TokenError, which is one
    line: where the protocol of the scenario is not registered, too.
    """
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
    """Files of a scenario that a test names in its text, itself, and modules that it has imported."""
    imported = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    text = test.read_text("utf-8", "replace")
    return [
        one for one in files_of(getattr(scenario.protocol, "params", None)) if one in imported or Path(one).name in text
    ]


def beyond(scenario: Scenario) -> str:
    """What of a scenario is too large for a token; empty if nothing is. No file is opened."""
    return scenario.beyond() or above_token(protocol(scenario.protocol.name).program, scenario.arguments(None))


def fields_of(word: str) -> dict[str, Any]:
    """What is in a word, each field checked but for the scenario, whose names may not be registered yet. Raises as
    `read_token` does.
    """
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
    """The fields, each of which is what it has to be, but for the scenario, which is text."""
    named = f"the token {shown(word, 40)}"
    if not isinstance(fields, dict) or fields.keys() != set(Token._fields):
        raise TokenError(f"{named} has other fields; expected {', '.join(Token._fields)}")
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
    for what, so in wrong.items():
        if so:
            raise TokenError(f"{named}: {what}")
    return fields


def _is_word(value: object) -> bool:
    """Whether a text may be printed as it is: no line breaks, nothing that a terminal obeys."""
    return isinstance(value, str) and len(value) <= LONGEST_WORD and value.isprintable()
