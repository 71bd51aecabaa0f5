"""Checks which sentences `prose` finds in each kind of file, and which text it skips."""

from __future__ import annotations

import pytest

from tests.house.prose import sentences

# ---- where a sentence ends


def read(text: str, file: str = "a.md") -> list[str]:
    """Returns the sentences of a text in their order."""
    return [sentence.text for sentence in sorted(sentences(file, text), key=lambda sentence: sentence.line)]


def test_a_sentence_ends_at_its_full_stop() -> None:
    assert read('It ends. So it does! "Does it?" `it` does (twice.) And dpsim.ops stays.') == [
        *("It ends.", "So it does!", '"Does it?"', "____ does (twice.)", "And dpsim.ops stays.")
    ]


@pytest.mark.parametrize(
    "text", ["It takes a port, e.g. 80, i.e. one.", "Release 0.33.0 has it.", "It waits ... And it runs."]
)
def test_a_full_stop_that_ends_no_sentence(text: str) -> None:
    assert read(text) == [text]


def test_headings_items_cells_and_paragraphs_end_a_sentence() -> None:
    text = "# Title\nText\nof two lines\n\nmore\n\n* one\n  item\n* two\n1. three\n\n| a | b |\n|---|---|\n| c | d |\n"
    assert read(text) == [
        *("# Title", "Text of two lines", "more", "one item", "two", "three"),
        *("a", "b", "c", "d"),
    ]


def test_code_is_no_sentence() -> None:
    fenced = "Before\n```python\nnot this line\n\nnor this\n```\nafter.\n"
    indented = "As here:\n\n    not this line\n\n    nor this\n\nAfter, or:\n    nor this\n"
    prompt = "Text\n\n    $ command\n    output  of it\n\n>>> f(1)\noutput  of it\n\nAfter\n"
    assert read(fenced) == ["Before", "after."]
    assert read(indented) == ["As here:", "After, or:"]
    assert read(prompt) == ["Text", "After"]


def test_an_indented_line_after_text_is_no_code() -> None:
    assert read("Text that goes on\n    with an indentation.\n") == ["Text that goes on with an indentation."]


def test_an_entry_of_a_map_is_a_sentence() -> None:
    text = "The files:\n\n    a.py      what is\n              in it\n    b.py      more\n    code()\n\nAfter\n"
    assert read(text) == ["The files:", "a.py", "what is in it", "b.py", "more", "After"]


# ---- which text is read

PYTHON = '''\
#!/usr/bin/env python
"""A module
of two lines.

>>> f(1)
'not this output'
"""

# A comment
# of two lines.
x = 1  # beside code
y = 2  # beside other code
"""An attribute."""


class A:
    """A class."""

    def f(self, rank):
        """A function.

            not this line
        """
        raise ValueError(f"rank {rank:02d} {'lost its first four words' if rank else 'x'} here") or g(
            "a name only", "a message that is "
            "cut in two", "x = 'this text is Python'", """
            two lines that are
            a message"""
        )
'''


def test_a_python_file_gives_docstrings_comments_and_messages() -> None:
    assert read(PYTHON, "a.py") == [
        *("A module of two lines.", "A comment of two lines.", "beside code", "beside other code", "An attribute."),
        *("A class.", "A function.", "rank _ _ here", "lost its first four words", "a message that is cut in two"),
        *("two lines that are", "a message"),
    ]


def test_the_line_of_a_sentence() -> None:
    lines = {sentence.text: sentence.line for sentence in sentences("a.py", PYTHON)}
    for text, line in lines.items():
        assert "_" in text or " ".join(text.split()[:2]) in PYTHON.splitlines()[line - 1]


def test_a_scenario_gives_comments_and_its_description() -> None:
    text = "# A comment.\nname: a name of some words\ndescription: >-\n  The text\n  goes on.\nranks: 2 # two\n"
    assert read(text, "a.yaml") == ["A comment.", "The text goes on.", "two"]
    assert read("description: 'The rank''s text.'\n", "a.yaml") == ["The rank''s text."]


def test_other_files_give_comments_and_messages() -> None:
    assert read('# A comment.\nname = "a message of five words"\nx = "a # b"\n', "pyproject.toml") == [
        *("A comment.", "a message of five words"),
    ]
    assert read("# A comment.\n#   make   a target\nall:\n\t@echo 'this is a message'\n", "Makefile") == [
        *("A comment.", "make", "a target", "this is a message"),
    ]
