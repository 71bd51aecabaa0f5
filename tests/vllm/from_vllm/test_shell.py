"""Tests how dpsim splits shell commands into words: mostly as Python's shlex, elsewhere as authors of documents mean
them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from dpsim.scenario import ScenarioError
from dpsim.vllm.from_vllm.shell import commands
from tests.properties import breaks, examples, holds

WORDS = st.lists(st.text(st.sampled_from("ab-=.:/{}[]'\"\\ \n\t#;|&<>$")), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("vllm serve m", [["vllm", "serve", "m"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a \\   # why\n  b", [["a", "b"]]),  # found in documents; a shell would read an escaped space
        ("a 64\\\n -b", [["a", "64", "-b"]]),
        ("a\n  --b", [["a", "--b"]]),  # found in documents, whose author forgot the backslash
        ("# a\nb # c", [["b"]]),
        ("a#b c", [["a#b", "c"]]),
        ("a; b && c | d &", [["a"], ["b"], ["c"], ["d"]]),
        ("a > log 2>&1 b", [["a", "b"]]),
        ("a --x <HEAD_NODE_IP> b", [["a", "--x", "<HEAD_NODE_IP>", "b"]]),
        ("""a '{"b": "c d"}' e""", [["a", '{"b": "c d"}', "e"]]),
        (r'a "{\"b\": \"\\n\"}"', [["a", r'{"b": "\n"}']]),
        ("a ''", [["a", ""]]),
        ("a 'b'\"c\"d", [["a", "bcd"]]),
        ("", []),
    ],
)
def test_the_reader_splits_commands_as_a_shell_does(text: str, found: list[list[str]]) -> None:
    assert commands(text) == found


@pytest.mark.parametrize("text", ["a 'b", 'a "b', 'a "b\\"'])
def test_a_quote_that_is_never_closed(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"^the quote .* is never closed"):
        commands(text)


@examples(100, 2000)
def test_quoted_words_are_read_as_they_were_written(examples: int) -> None:
    def come_back(words: list[str], read: Callable[[str], list[list[str]]] = commands) -> None:
        first = ["x", *words]  # a first word like a flag would continue a line before it
        assert read(shlex.join(first)) == [first], "the reader returns other words than the shell was given"

    holds(come_back, WORDS, examples)
    breaks(
        lambda words: come_back(words, lambda text: [text.split()]),
        WORDS,
        "the reader returns other words than the shell was given",
    )
