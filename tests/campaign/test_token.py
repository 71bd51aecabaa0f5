"""Tests tokens, the words that encode a scenario and a schedule. A token decodes to the same content. Any other text is
refused in one line, without much work.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpsim.campaign.token import LONGEST, MOST_BYTES, PREFIX, Token, TokenError, read_token
from dpsim.explore import LONGEST as MOST_STEPS
from dpsim.explore import STRATEGIES
from dpsim.scenario import dump_scenario, scenario_from
from dpsim.testing import scenarios
from tests.contract.test_events import EVENTS
from tests.every_value import TEXTS, every
from tests.protocols import agreed

SMALL = scenario_from({"name": "small", "protocol": "t_agree"})
STEPS = ("rank 0 first[0]", "rank 1 delivers wake[0]", "rank 0>1 #2: eager")
TOKEN = Token(SMALL, STEPS, "HANG:MAILBOX:NO_MESSAGE", "portfolio", 300)
TEXT = "name: small\nprotocol: t_agree\n"
FIELDS = {**TOKEN._asdict(), "scenario": TEXT}
FEW: dict[str, st.SearchStrategy[Any]] = {"ranks": st.integers(2, 4), "steps": st.integers(1, 3)}
PRINTABLE = st.text(max_size=20).filter(str.isprintable)


def packed(content: bytes) -> str:
    """Returns a token that encodes this content, even if dpsim would never write such a token."""
    whole = hashlib.sha256(content).digest()[:4] + zlib.compress(content, 9)
    return PREFIX + base64.urlsafe_b64encode(whole).decode().rstrip("=")


def of(**changes: Any) -> str:
    """Returns a token with these fields of a scenario and schedule, without those that are None."""
    fields = {key: value for key, value in {**FIELDS, **changes}.items() if value is not None}
    return packed(json.dumps(fields).encode())


def refused(word: str) -> str:
    with pytest.raises(TokenError) as raised:
        read_token(word)
    said = str(raised.value)
    assert "\n" not in said
    assert len(said) < 2_000
    return said


def tokens(texts: Any, schedules: Any, strategies: Any) -> st.SearchStrategy[Token]:
    """Draws tokens with all fields. `texts`: of the class and of steps that are no events."""
    steps = st.lists(EVENTS.map(str) | texts, max_size=5).map(tuple)
    own = {"steps": steps, "klass": texts, "strategy": strategies, "schedules": schedules}
    return every(Token, scenario=scenarios(protocol="t_agree", params=FEW), **own)  # type: ignore[no-any-return]


@settings(max_examples=20)
@given(tokens(PRINTABLE, st.integers(1, 100_000), st.sampled_from([*STRATEGIES])))
def test_a_token_is_read_as_it_was_written(token: Token) -> None:
    word = str(token)
    assert read_token(word) == token
    assert word.removeprefix(PREFIX).replace("-", "").replace("_", "").isalnum(), (
        "a shell reads the token as one word without quotes"
    )


@settings(max_examples=20)
@given(tokens(TEXTS, st.integers(-1, 200_000), st.sampled_from(["dpor", "later", "\n"])))
@example(TOKEN._replace(steps=("rank 0 goes on",) * (MOST_STEPS + 1)))
def test_no_token_is_written_that_would_be_refused(token: Token) -> None:
    """Makes tokens with any text and number. Either the token can be read, or its word is empty."""
    word = str(token)
    assert not word or read_token(word) == token


def test_a_small_world_is_a_short_word() -> None:
    assert read_token(str(TOKEN)) == TOKEN == read_token(of())
    assert len(str(TOKEN)) < 400


def test_a_schedule_that_is_too_long_has_no_token() -> None:
    """Digits of a hash do not compress, so a long schedule of them has no token."""
    steps = tuple(hashlib.sha256(bytes([one])).hexdigest() for one in range(200)) * 3
    assert str(TOKEN._replace(steps=steps)) == "" or len(str(TOKEN._replace(steps=steps))) <= LONGEST
    assert str(TOKEN._replace(steps=tuple(f"{hashlib.sha256(str(n).encode()).hexdigest()}" for n in range(500)))) == ""
    assert str(TOKEN._replace(steps=("x" * 1_000,) * 2_000)) == "", (
        "the reader would refuse the steps when it unpacks them"
    )


# ---- texts that are no tokens


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("", "the token '' is none; expected a word that begins with 'dpsim1.'"),
        ("x.jsonl", "is none; expected"),
        ("dpsim2.abc", "is of another version of dpsim"),
        ("dpsim1.", "is damaged; expected the whole word as it was printed"),
        ("dpsim1.a", "is damaged"),
        ("dpsim1.abc def", "is damaged"),
        ("dpsim1.äöü", "is damaged"),
        ("dpsim1." + "A" * LONGEST, "is too long: 16,391 characters; expected at most 16,384"),
        (packed(b"\xff"), "is damaged"),
        (packed(b"[" * 100_000), "is damaged"),
        (packed(b"9" * 100_000), "is damaged"),
        (packed(b"[]"), "has other fields; expected scenario, steps, klass, strategy, schedules"),
        (packed(b"NaN"), "has other fields"),
        (of(klass=None), "has other fields"),
        (of(more=1), "has other fields"),
        (of(scenario=7), "scenario: expected text"),
        (of(scenario="name: x\n"), "the token's scenario:1:1: "),
        (of(scenario="[" * 1_000), "the token's scenario:1:"),
        (of(scenario=TEXT.replace("t_agree", "mine")), "no protocol is registered as 'mine'"),
        (of(steps="rank 0"), "steps: expected a list of up to 10,000 printable words"),
        (of(steps=[1]), "steps: expected a list"),
        (of(steps=["x" * 1_001]), "steps: expected a list"),
        (of(steps=["x"] * 10_001), "steps: expected a list"),
        (of(steps=["rank 0", "\x1b[31mred"]), "steps: expected a list"),
        (of(steps=["one\ntwo"]), "steps: expected a list"),
        (of(steps=["\u202eback"]), "steps: expected a list"),
        (of(klass="HANG\x1b[2J"), "klass: expected a class"),
        (of(klass=3), "klass: expected a class"),
        (of(klass="HANG\n\nfound"), "klass: expected a class"),
        (of(klass="X" * 1_001), "klass: expected a class"),
        (of(strategy="guess"), "strategy: expected one of portfolio, dpor"),
        (of(strategy=["dpor"]), "strategy: expected one of"),
        (of(schedules=0), "schedules: expected a number from 1 to 100,000"),
        (of(schedules=True), "schedules: expected a number"),
        (of(schedules=1e9), "schedules: expected a number"),
        (of(schedules=10**30), "schedules: expected a number"),
    ],
    ids=lambda value: value[:30],
)
def test_a_damaged_token_is_refused_with_the_reason(word: str, said: str) -> None:
    assert said in refused(word)


def test_the_module_that_is_missing_is_asked_for() -> None:
    said = refused(of(scenario=TEXT.replace("t_agree", "mine")))
    assert "; if a module of yours registers it, add --module FILE.py (in tests, import it in conftest.py); " in said


# ---- worlds that are too large


def test_a_world_that_is_too_large_is_refused_unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    """dpsim refuses a token with too many ranks before it makes the world, and writes no such token itself."""
    for ranks, said in ((65, "65 ranks; expected at most 64"), (4_096, "4,096 ranks; expected at most 64")):
        scenario = agreed({"ranks": ranks})
        monkeypatch.setattr(type(scenario), "arguments", None)
        assert said in refused(of(scenario=dump_scenario(scenario)))
        assert str(TOKEN._replace(scenario=scenario)) == ""


def test_a_world_at_the_limits_is_read() -> None:
    token = TOKEN._replace(scenario=agreed({"ranks": 64}))
    assert read_token(of(scenario=dump_scenario(token.scenario))) == token
    assert read_token(str(token)) == token


def test_a_schedule_with_unprintable_characters_has_no_token() -> None:
    """A site of a program may contain unprintable characters; such a schedule has no token."""
    assert str(TOKEN._replace(steps=("rank 0 \x1b[31m[0]",))) == ""


def test_a_bomb_is_not_unpacked() -> None:
    """dpsim expands at most one megabyte of a token, however much the content would be."""
    word = packed(b"x" * 10_000_000)
    assert len(word) < LONGEST
    assert f"expands to more than {MOST_BYTES:,} bytes" in refused(word)


def test_a_word_that_is_cut_or_changed_is_noticed() -> None:
    word = str(TOKEN)
    for length in range(len(word)):
        refused(word[:length])
    for at in range(len(PREFIX), len(word) - 1):  # the last character contains unused bits
        refused(word[:at] + ("A" if word[at] != "A" else "B") + word[at + 1 :])


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode), st.booleans())
def test_any_bytes_as_a_token_are_refused(content: bytes, well_packed: bool) -> None:
    body = base64.urlsafe_b64encode(content).decode().rstrip("=")
    refused(packed(content) if well_packed else PREFIX + body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@settings(max_examples=200)
@given(st.sampled_from(sorted(FIELDS)), JSON)
def test_a_token_with_any_field_is_read_or_refused(field: str, value: object) -> None:
    """dpsim reads or refuses a token with any field, and raises nothing else."""
    with suppress(TokenError):
        assert read_token(packed(json.dumps({**FIELDS, field: value}).encode()))
