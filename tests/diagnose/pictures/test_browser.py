"""Tests of pictures in a browser: Chromium without a window loads the file, draws it, and finds the op under the
pointer.

The tests are skipped if no Chromium is installed.
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

from dpsim.diagnose.evidence import Extras
from dpsim.diagnose.pictures.of_run import picture_of_run
from dpsim.diagnose.pictures.op import Picture
from dpsim.diagnose.pictures.page import page
from tests.agreeing import HEALTHY, SKIP
from tests.checks.handmade import Made
from tests.diagnose.pictures.test_decisions import decided
from tests.diagnose.pictures.test_of_run import of_a_store, pictured, pictured_of
from tests.diagnose.pictures.test_page import HOSTILE, hostile

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]


def asked(picture: Picture, folder: Path, script: str) -> Any:
    """Returns the value of an expression of the page's script in the browser."""
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


@pytest.mark.parametrize(("value", "arrows"), [("hello", 2), ("other", 0)])
def test_an_arrow_leads_from_a_set_to_each_get_of_its_value(value: str, arrows: int, tmp_path: Path) -> None:
    drawn = "(() => { let count = 0; arrow = () => { count += 1; }; drawLinks(); return count; })()"
    assert asked(pictured_of(of_a_store(value)), tmp_path, drawn) == arrows


def test_a_reader_finds_the_waits(tmp_path: Path) -> None:
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


def test_waits_have_the_same_arrows_with_durations_and_in_ticks(tmp_path: Path) -> None:
    """Compares the arrows of waits with durations and in ticks. With durations, calls that return at once begin
    together; the last of them is the op in which the rank waits.
    """
    arrows = "waits.map(wait => [wait.from.lane.row.name, wait.from.lane.name]).sort()"
    found = [asked(pictured(tmp_path, HEALTHY + SKIP, in_ticks=ticks), tmp_path, arrows) for ticks in (True, False)]
    assert found[0] == found[1]
    assert ["rank 1", "host"] in found[1]


def baton() -> Picture:
    """A thread sets its own flag twice and ends. The main thread waits for a flag with another name."""
    made = Made(1)
    rank = made[0]
    rank.about_thread("start", "ubatch.0")
    rank.thread = "ubatch.0"
    for _ in range(2):
        rank.flag("set", "ubatch.0.event")
        rank.flag("clear", "ubatch.0.event")
    rank.flag("set", "ubatch.0.event")
    rank.ended()
    rank.thread = "main"
    rank.flag("wait", "ubatch.1.event")
    return pictured_of(made, "blocked")


def test_names_arrows_and_marks_of_a_lost_baton(tmp_path: Path) -> None:
    lanes = "rows[0].lanes.map(lane => (pen.font = PLAIN, fitting(lane.name, LANE_NAMES - 6, 0.5)))"
    tags = "rows[0].lanes.map(lane => tagsOf(lane).map(tag => tag.text))"
    arrows = "waits.map(wait => [wait.from.lane.name, wait.to.y - middleOf(rows[0].lanes[1])])"
    bar = "barTexts(rows[0].lanes[0], rows[0].lanes[0].ops.length - WIDTH)"
    cut = "(pen.font = PLAIN, ['ubatch.0', 'ubatch.1'].map(name => fitting(`thread of ${name}`, 60, 0.5)))"
    keys = "[...document.querySelectorAll('[data-key]')].filter(key => !key.hidden).map(key => key.dataset.key)"
    found = asked(baton(), tmp_path, f"[{lanes}, {tags}, {arrows}, {bar}, {cut}, {keys}]")
    assert found[0] == ["host", "thread ubatch.0"]
    assert found[1] == [
        [],
        ["culprit: ubatch.0.event.set[0]  set flag ubatch.0.event at here.py:1  (3 calls, outlined)"],
    ]
    assert found[2] == [["host", 0]]
    said = "waits for flag ubatch.1.event, which no thread set; thread ubatch.0 has ended"
    assert found[3] == [f"ubatch.1.event.wait[0]  {said}", f"wait[0]  {said}", said]
    assert found[4][0] != found[4][1], "cut at the end, two threads have one name"
    assert found[5] == ["host", "ended", "stuck", "arrow", "marked", "row", "ticks"]


def test_a_collective_names_its_group_and_each_wait_has_an_arrow(tmp_path: Path) -> None:
    made = Made(2)
    for rank, group in enumerate(("dp", "cpu")):
        made[rank].collective(group, None)
    texts = "rows.map(row => barTexts(row.lanes[0], 0)[0])"
    found = asked(pictured_of(made, "blocked", "blocked"), tmp_path, f"[{texts}, waits.length, data.undecided]")
    bars = [
        "dp.all_reduce[0] all_reduce on dp #0:  waits for rank 1",
        "cpu.all_reduce[0] all_reduce on cpu #0:  waits for rank 0",
    ]
    assert found == [bars, 2, True]


def test_no_line_strikes_through_the_words_of_the_turning(tmp_path: Path) -> None:
    """Compares the pixels of the words with and without the dashed line between both events."""
    made = Made(2)
    made[0].learned(made[0].take("poll"), None)
    for _ in range(4):
        made[1].learned(made[1].take("other"), None)
    made[1].post(0, ("go",))
    extras = Extras(swap="one before the other", swaps=(("rank 0 poll[0]", "rank 1 post[0]"),))
    picture = picture_of_run(made.world, made.run(), made.findings(), "by hand", extras=extras)
    box = "[xOf(0) + 8, rows[0].lanes[0].tagY - view.top + 5, 150, 10]"
    pixels = "(x, y, across, tall) => pen.getImageData(x, y, across, tall).data.join()"
    images = f"(() => {{ draw(); return [({pixels})(...{box}), ({pixels})(0, 0, wide, high)]; }})"
    alone = f"(() => {{ dashed = () => {{}}; return ({images})(); }})"
    same = f"(([one, other]) => one.map((image, at) => image === other[at]))([({images})(), ({alone})()])"
    assert asked(picture, tmp_path, same) == [True, False]


def test_no_line_strikes_through_the_words_of_a_missing_call(tmp_path: Path) -> None:
    """Compares the pixels of the words with and without the lines of all messages and waits."""
    text = HEALTHY + SKIP
    lane = "rows[1].lanes.find(lane => lane.holeY)"
    box = f"[xOf({lane}.holes[0][0]) + 6, {lane}.holeY - view.top + 6, 60, 10]"
    pixels = f"(() => {{ draw(); return pen.getImageData(...{box}).data.join(); }})"
    line = f"drawWaits = () => {{ pen.fillStyle = RED; pen.fillRect(...{box}); }}"
    alone, crossed = (
        f"(() => {{ drawWaits = () => {{}}; return {pixels}(); }})",
        f"(() => {{ {line}; return {pixels}(); }})",
    )
    assert asked(pictured(tmp_path, text), tmp_path, f"{alone}() === {crossed}()")


def test_decisions_that_differ_have_words_and_a_key(tmp_path: Path) -> None:
    tags = "rows.map(row => tagsOf(row.lanes[0]).map(tag => tag.text))"
    keys = "['marked', 'decided'].map(name => document.querySelector(`[data-key=${name}]`).hidden)"
    found = asked(decided((0, 1)), tmp_path, f"[{tags}, {keys}]")
    assert found == [[["mode[0]  decided 0 at here.py:2"], ["mode[0]  decided 1 at here.py:3"]], [True, False]]
    blamed = asked(decided((7, 8, 7)), tmp_path, f"[{tags}, {keys}]")
    assert blamed == [[[], ["culprit: mode[0]  decided 8 at here.py:3"], []], [False, True]]


def test_a_higher_window_shows_the_rows_above(tmp_path: Path) -> None:
    moved = "(() => { view.top = 500; dispatchEvent(new Event('resize')); return [view.top, height < high]; })()"
    assert asked(decided((0, 1)), tmp_path, moved) == [0, True]


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    for text in HOSTILE.values():
        found = asked(hostile(text), tmp_path, "[document.title.length < 400, document.scripts.length, rows.length]")
        assert found == [True, 3, 2]
