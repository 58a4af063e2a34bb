"""Hooks of mkdocs: the navigation follows the folders, and links to files outside docs/ become plain text.

Runs in .docs/venv, which has mkdocs and nothing of Molecule.
"""

import os
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
_OUTSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")
_SECTIONS = {"Tutorial": "tutorial", "How-to guides": "how-to", "Reference": "reference", "Explanation": "explanation"}
_DEVELOPMENT = ("proofs.md", "performance.md", "order.md", "interop", "decisions")


def on_config(config: Any) -> Any:
    """Make the navigation: one section for each kind of page, then what developers read."""
    docs = Path(config["docs_dir"])
    config["nav"] = [
        {"Home": "index.md"},
        *({title: _pages(docs, folder)} for title, folder in _SECTIONS.items() if (docs / folder).is_dir()),
        {"Glossary": "glossary.md"},
        {"Development": [page for each in _DEVELOPMENT for page in _development(docs, each)]},
    ]
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Keep only the text of links that leave docs/: the site does not hold their targets."""
    folder = Path(page.file.src_uri).parent

    def replace(link: re.Match[str]) -> str:
        text, target = link.groups()
        if _OUTSIDE.match(target) or not os.path.normpath(folder / target).startswith(".."):
            return link[0]
        return text

    return _LINK.sub(replace, markdown)


def _pages(docs: Path, folder: str) -> list[str]:
    """Return the pages of a folder; its index, if it has one, comes first."""
    found = sorted(page.relative_to(docs).as_posix() for page in (docs / folder).rglob("*.md"))
    return sorted(found, key=lambda page: Path(page).name not in ("index.md", "README.md"))


def _development(docs: Path, name: str) -> list[Any]:
    if name.endswith(".md"):
        return [name]
    return [{name.capitalize(): _pages(docs, name)}]
