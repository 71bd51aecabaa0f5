"""For mkdocs: the pages outside of docs/ are pages of the site, and a link to a source file becomes its path.

mkdocs knows one folder of pages. README.md, CONTRIBUTING.md and others lie beside it, and pages on both sides link to
each other. Each link to a page gets the address that the page has on the site. mkdocs then checks it as any other link.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s#:]+)(#[^)\s]+)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/."""
    root = Path(config.docs_dir).parent
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(root / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page. Blocks of code stay as they are."""
    name = page.file.src_uri
    here = "" if name in OUTSIDE else posixpath.join("docs", posixpath.dirname(name))
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.startswith("```") else LINK.sub(lambda link: rewritten(link, here, name, config), part)
        for part in parts
    )


def rewritten(link: re.Match[str], here: str, name: str, config: MkDocsConfig) -> str:
    """The link with the address on the site. A file that is no page of the site becomes text."""
    text, target, heading = link.group(1), link.group(2), link.group(3) or ""
    path = posixpath.normpath(posixpath.join(here, target))
    root = Path(config.docs_dir).parent
    if path.startswith("docs/") and path.endswith(".md"):
        path = path.removeprefix("docs/")
    elif path not in OUTSIDE:
        return text if (root / path).exists() else link.group(0)
    return f"[{text}]({posixpath.relpath(path, posixpath.dirname(name) or '.')}{heading})"
