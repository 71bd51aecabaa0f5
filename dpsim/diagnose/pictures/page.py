"""A picture as one HTML file, which needs no network and no other file.

    page(picture)       # "<!doctype html>..."

The file has a policy by which a browser loads nothing else. Texts of traces and dumps are data. One JSON text has
them all, without a character that could end it. The script draws them on a canvas or sets them as text, not as markup.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from dpsim.diagnose.pictures.op import Picture
from dpsim.diagnose.pictures.rows import content

SCRIPTS = ("layout.js", "names.js", "draw.js", "lines.js", "pointer.js")
"""In the order in which a browser reads them."""

_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}


def page(picture: Picture) -> str:
    """The file, of ASCII alone."""
    data = content(picture)
    parts = {
        "TITLE": html.escape(data["title"]).encode("ascii", "xmlcharrefreplace").decode(),
        "DATA": json.dumps(data, separators=(",", ":")).translate(_ESCAPED),
        "SCRIPT": "".join(_file(name) for name in SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="ascii")
