"""Makes the pictures of docs/pictures.md anew, with Chromium, and notes their words.

    python -m tests.vllm.docs_pictures

The words of a picture are its legend, its report and its marks, without numbers of lines and chains of calls.
`test_docs_pictures.py` compares docs/pictures/words.txt with the words of the same runs now, and so notices a picture
of former words.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from dpsim.cli.app import app
from dpsim.cli.export import picture_of
from dpsim.diagnose.pictures.op import Picture
from dpsim.diagnose.pictures.page import page
from tests import ROOT

FOLDER = ROOT / "docs" / "pictures"


class Shot(NamedTuple):
    """A picture of docs/pictures: the scenario, the size in pixels, and whether it shows order alone."""

    scenario: str
    width: int
    height: int
    in_ticks: bool = False


SHOTS = {
    "missing-rank": Shot("skip_one", 1200, 455),
    "race": Shot("museum/m-pp-9", 1500, 600, in_ticks=True),
    "turning": Shot("museum/m-el-9", 1500, 640),
}


CHAIN = re.compile(r"^ *[\w/]+\.py:\d+ < .*\n", re.MULTILINE)
"""The functions that led to a line: those of the first run of a process that came there, so another run may differ."""


def pictured(shot: Shot, folder: Path) -> Picture:
    """Returns the picture that `dpsim export` draws of a trace of the scenario."""
    trace = folder / f"{Path(shot.scenario).name}.jsonl"
    done = CliRunner().invoke(app, ["run", shot.scenario, "--trace", str(trace), "--no-results"])
    assert done.exit_code == 0, done.output
    return picture_of(trace, in_ticks=shot.in_ticks)


def words(pictures: dict[str, Picture]) -> str:
    """Returns the words of all pictures."""
    html = page(next(iter(pictures.values())))
    legend = [re.sub(r"<.*?>", "", key) for key in re.findall(r'data-key="\w+"[^>]*>(.*?)</span>', html)]
    parts = ["\n".join(["legend:", *(unescape(key) for key in legend if key)])]
    for name, picture in pictures.items():
        marks = {text for op in picture.ops for text in (op.label, op.turning) if text}
        parts.append("\n".join([f"{name}:", *picture.lines, *sorted(marks)]))
    return re.sub(r"\.py:\d+", ".py", CHAIN.sub("", "\n\n".join(parts))) + "\n"


def take(picture: Picture, shot: Shot, file: Path, chromium: str) -> None:
    """Writes the page's picture of the given size. Chromium's own viewport is lower than its window."""
    size = f"html, body {{ height: {shot.height}px !important }} #report {{ max-height: 34% !important }}"
    source = file.with_suffix(".html")
    source.write_text(page(picture).replace("</style>", f"{size}</style>", 1))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    window = f"--window-size={shot.width},{shot.height}"
    subprocess.run([chromium, *options, window, f"--screenshot={file}", source.as_uri()], check=True)


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("no Chromium is installed; expected chromium, chromium-browser or google-chrome in PATH")
    with tempfile.TemporaryDirectory() as name:
        pictures = {one: pictured(shot, Path(name)) for one, shot in SHOTS.items()}
        for one, shot in SHOTS.items():
            take(pictures[one], shot, Path(name) / f"{one}.png", chromium)
            shutil.copy(Path(name) / f"{one}.png", FOLDER)
    (FOLDER / "words.txt").write_text(words(pictures))


if __name__ == "__main__":
    main()
