"""For mkdocs: the pages outside of docs/ are pages of the site, and a link to a source file becomes its path.

mkdocs knows one folder of pages. README.md, CONTRIBUTING.md and others lie beside it, and pages on both sides link to
each other. Each link to a page gets the address that the page has on the site. mkdocs then checks it as any other link.

The scripts of the theme stop at an address of a heading that begins with a digit, and search and menus then do nothing.
So such an address begins with _ on the site. The switch between light and dark needs two elements that the theme omits.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s#:]*)(?:#([^)\s]+))?\)")
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
CODE = re.compile(r"(?<=<code>)[^<]+")
LONG = re.compile(r"\S{25,}")
BREAK = re.compile(r"\w[/_](?=\w)|[^/_&;]{30}")
STYLES_OF_CODE = '<meta id="hljs-light"><meta id="hljs-dark">'


def on_config(config: MkDocsConfig) -> None:
    """Set the function that computes the address of a heading."""
    config.mdx_configs["toc"]["slugify"] = lambda heading, separator: address(slugify(heading, separator))


def address(heading: str) -> str:
    """The address of a heading on the site, from its address on GitHub."""
    return f"_{heading}" if heading[:1].isdigit() else heading


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
    text, target = link.group(1), link.group(2)
    heading = f"#{address(link.group(3))}" if link.group(3) else ""
    path = posixpath.normpath(posixpath.join(here, target))
    root = Path(config.docs_dir).parent
    if not target:
        return f"[{text}]({heading})"
    if path.startswith("docs/") and path.endswith(".md"):
        path = path.removeprefix("docs/")
    elif path not in OUTSIDE:
        return text if (root / path).exists() else link.group(0)
    return f"[{text}]({posixpath.relpath(path, posixpath.dirname(name) or '.')}{heading})"


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Put each table into a box that scrolls if the table is wider than the page, and let code in its cells break.

    The search index does not see the breaks, because mkdocs builds it before.
    """
    boxed = TABLE.sub(lambda table: f'<div class="table-responsive">{CODE.sub(in_cell, table[0])}</div>', output)
    return boxed.replace("</head>", f"{STYLES_OF_CODE}</head>", 1)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Let the switch between light and dark work on the page of a missing page, too."""
    return output_content.replace("</head>", f"{STYLES_OF_CODE}</head>", 1)


def in_cell(code: re.Match[str]) -> str:
    """Inline code of a table. A word of more than 24 characters may break after / and _, and after 30 others.

    As on GitHub, the source has a backslash before each |, and the page has none.
    """
    return LONG.sub(lambda word: BREAK.sub(r"\g<0><wbr>", word[0]), code[0].replace("\\|", "|"))
