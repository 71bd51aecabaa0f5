"""A long text of an exception loses its middle: its last line names the exception that began it all."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from dpsim.diagnose.words import text
from tests.torch.runs import blamed, explored

BEGAN = "KeyError: 'layers.0.mlp.gate'"


def test_the_end_of_a_long_error_is_in_the_finding_and_on_the_first_screen() -> None:
    """Both twins fail here: a text cut at its end, and a first screen that shows its beginning alone."""
    found = explored("long_error.py:loads", 2)
    assert blamed(found)[:2] == ("CRASH:RUNTIMEERROR", (1,))
    message = text(found.findings[0].message)
    assert message.endswith(BEGAN)
    assert "rank 1 could not load Traceback" in message
    assert re.search(r" \.\.\. [\d,]+ characters cut \.\.\. ", message)
    screen = " ".join(found.report().split())
    assert BEGAN in screen
    assert "could not load" in screen
