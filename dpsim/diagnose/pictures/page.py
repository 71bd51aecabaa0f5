"""Page: writes a picture as one HTML file, which needs neither a network nor any other file.

    page(picture)       # "<!doctype html>..."

Texts come from traces and dumps of strangers, so the page treats them as data. Its content security policy forbids all
other resources. All texts are in one JSON text, whose escapes prevent it from closing the script element. The script
draws them on a canvas or sets them as text, and never as markup.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from dpsim.diagnose.pictures.op import Picture
from dpsim.diagnose.pictures.rows import content

SCRIPTS = ("layout.js", "names.js", "draw.js", "lines.js", "pointer.js")
"""The scripts in the order in which a browser reads them."""

_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}


def page(picture: Picture) -> str:
    """Returns the file, in ASCII."""
    data = content(picture)
    parts = {
        "TITLE": html.escape(data["title"]).encode("ascii", "xmlcharrefreplace").decode(),
        "DATA": json.dumps(data, separators=(",", ":")).translate(_ESCAPED),
        "SCRIPT": "".join(_file(name) for name in SCRIPTS),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="ascii")
