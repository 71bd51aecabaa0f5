"""`docs/words.md` explains only words that the other pages use, and links each one to a page with more.

`tests/test_site.py` follows the links.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests import ROOT

PAGE = ROOT / "docs" / "words.md"


def entries(text: str) -> list[tuple[str, str]]:
    """Returns the word and the explanation of each entry, in the order of the page."""
    return re.findall(r"^\* \*\*(.+?)\*\*: (.*?)(?=^\* \*\*|^## |\Z)", text, re.MULTILINE | re.DOTALL)


def problems(text: str) -> list[str]:
    """Returns what is wrong with a page of words: words without use or link, and words out of order."""
    others = [path.read_text() for path in [*ROOT.glob("docs/**/*.md"), ROOT / "README.md"] if path != PAGE]
    used = "\n".join(others).lower()
    wrong = []
    for word, explanation in entries(text):
        first = word.split()[0].lower()
        if not re.search(rf"\b{re.escape(first)}(?:e?s)?\b", used):
            wrong.append(f"no page uses {word}")
        if not re.search(r"\[[^]]+\]\([^)]+\.md(?:#[^)]*)?\)", explanation):
            wrong.append(f"{word} has no link")
    for section in text.split("\n## "):
        words = [word.lower() for word, _ in entries(section)]
        wrong += [f"{after} comes after {before}" for before, after in pairwise(words) if after < before]
    return wrong


def test_each_word_has_a_use_and_a_link() -> None:
    text = PAGE.read_text()
    assert 25 <= len(entries(text)) <= 40
    assert problems(text) == []


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ("* **Zyzzyva**: a beetle. See [the museum](museum.md).", "no page uses Zyzzyva"),
        ("* **World**: a program with fixed parameters.", "World has no link"),
        (
            "* **Rank**: a member. See [Keys](keys.md).\n* **Check**: a rule. See [Keys](keys.md).",
            "check comes after rank",
        ),
    ],
)
def test_a_bad_entry_is_found(entry: str, wrong: str) -> None:
    assert problems(f"# Words\n\n{entry}\n") == [wrong]
