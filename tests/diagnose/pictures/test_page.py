"""Tests of the HTML file of a picture: it needs no other file, and no text of a trace becomes markup or script."""

from __future__ import annotations

import json
import re

import pytest

from dpsim.diagnose.pictures.op import DrawnOp, Hole, Picture
from dpsim.diagnose.pictures.page import page

HOSTILE = {
    "the end of a script": "</script><script>document.title='taken'</script>",
    "a comment": "<!--<script>",
    "quotes": "\"'`&quot;\\",
    "a placeholder": "{{SCRIPT}}{{DATA}}",
    "a NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "line separators": "a\u2028b\u2029c\nd",
    "a turn of the text": "a\u202eb",
    "a long text": "long " * 100_000,
}


def hostile(text: str) -> Picture:
    """Returns a picture that contains the text in each place."""
    op = DrawnOp(0, text, "collective", text, text, text, 0, text, (text, 0))
    op.begin, op.label = 0, text
    return Picture(text, [text], [text, "rank 1"], [text, text], [op], (1,), [Hole(1, op, True)])


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_gets_out_of_the_data(name: str) -> None:
    plain, found = page(hostile("plain")), page(hostile(HOSTILE[name]))
    assert found.isascii()
    assert "\0" not in found
    for tag in ("<script", "</script", "<!--", "<div", "function draw()"):
        assert found.count(tag) == plain.count(tag)
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', found, re.DOTALL)
    assert len(data) < 10_000
    assert json.loads(data)["rows"][0]["ranks"] == [0]


def test_a_page_without_the_escape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsim.diagnose.pictures.page._ESCAPED", {})
    with pytest.raises(AssertionError):
        test_no_text_gets_out_of_the_data("the end of a script")


def test_the_file_loads_nothing_else() -> None:
    found = page(hostile("plain"))
    assert "default-src 'none'" in found
    assert not re.search(r"https?:|//[a-z]+\.|import\(|fetch\(|<link rel=\"style|src=", found)
