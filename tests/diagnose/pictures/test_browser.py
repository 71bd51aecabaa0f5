"""Pictures in a browser: Chromium without a window loads the file, draws it, and finds what a reader points at.

Skipped where no Chromium is installed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from dpsim.diagnose.pictures.op import Picture
from dpsim.diagnose.pictures.page import page
from tests.agreeing import HEALTHY, SKIP
from tests.diagnose.pictures.test_of_run import pictured
from tests.diagnose.pictures.test_page import HOSTILE, hostile

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]


def asked(picture: Picture, folder: Path, script: str) -> Any:
    """What an expression of the page's script gives in a browser."""
    asks = f"<script>document.body.dataset.answer = encodeURIComponent(JSON.stringify({script}))</script></body>"
    file = folder / "page.html"
    file.write_text(page(picture).replace("</body>", asks))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,700",
        f"--user-data-dir={folder}/user",
    ]
    command = [str(CHROMIUM), *options, "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-answer="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return json.loads(unquote(found[1]))


def test_a_reader_finds_who_waits_for_whom(tmp_path: Path) -> None:
    picture = pictured(tmp_path, HEALTHY + SKIP)
    rows = asked(picture, tmp_path, "rows.map(row => [row.name, row.culprit])")
    assert rows == [["ranks 0, 2", False], ["rank 1", True]]
    hole = "(row => row.lanes.find(lane => lane.holeY))(rows[1])"
    words = f"wordsOf(below(xOf({hole}.holes[0][0]) + 5, {hole}.holeY - view.top + 5))"
    assert asked(picture, tmp_path, words)[0].startswith("MISSING on rank 1: all_reduce")
    stuck = "(lane => wordsOf(below(wide - 5, lane.y + 5)))(rows[0].lanes[0])"
    assert asked(picture, tmp_path, stuck)[-1] == "waits for rank 1"
    painted = "[...new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer)]"
    assert asked(picture, tmp_path, f"new Set({painted}).size") > 20, "nothing is drawn"


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    for text in HOSTILE.values():
        found = asked(hostile(text), tmp_path, "[document.title.length < 400, document.scripts.length, rows.length]")
        assert found == [True, 3, 2]
