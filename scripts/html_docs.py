"""Renders docs/ as HTML into src/molecule_core/html_docs, which the server serves at /docs. No scripts, no addresses.

Called by hatch_build.py, which packs the pages into wheels, and by scripts/docs. Needs the build requirements only.
"""

import hashlib
import html
import itertools
import json
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

ROOT = Path(__file__).resolve().parent.parent
STYLE = Path(__file__).with_name("html_docs.css")
_SECTIONS = (
    ("Tutorial", ("tutorial",)),
    ("How-to guides", ("how-to",)),
    ("Reference", ("reference",)),
    ("Explanation", ("explanation",)),
    ("Development", ("proofs", "performance", "order", "interop", "decisions")),
)
_ALLOWED_HTML = re.compile(r"</?(?:details|summary)>")
"""HTML that pages may use; all other is shown as text."""
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_INDEXED = ("interop", "decisions")
"""Folders whose README.md lists their pages."""
_OUTSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_MAX_OUTLINE = 40
"""Entries of a page's outline; a longer one would hide the page on a phone."""


@dataclass(frozen=True)
class Heading:
    """A heading of a page. `text`: HTML of its words."""

    level: int
    anchor: str
    text: str


@dataclass(frozen=True)
class Page:
    """A rendered page. `path`: below /docs/, without a suffix; the first page is `index`."""

    path: str
    title: str
    body: str
    outline: tuple[Heading, ...]

    @property
    def url(self) -> str:
        """Return its address on the server."""
        return "/docs/" if self.path == "index" else f"/docs/{self.path}"

    @property
    def section(self) -> str:
        """Return the title of its section; empty if it has none."""
        return next((title for title, places in _SECTIONS if self.path.split("/")[0] in places), "")


class Renderer:
    """Renders the Markdown pages of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        self._markdown.use(anchors_plugin, max_level=4)

    def pages(self) -> list[Page]:
        """Return all pages, in the order of their paths."""
        return [self._render(file) for file in sorted(self._folder.rglob("*.md"))]

    def _render(self, file: Path) -> Page:
        name = file.relative_to(self._folder).as_posix()
        tokens = self._markdown.parse(file.read_text(encoding="utf-8"))
        self._rewrite_links(tokens, name)
        for token in _with_children(tokens):
            if token.type in ("html_block", "html_inline"):
                token.content = _COMMENT.sub("", token.content)
                token.content = "".join(
                    part if _ALLOWED_HTML.fullmatch(part) else html.escape(part)
                    for part in re.split(f"({_ALLOWED_HTML.pattern})", token.content)
                )
            if style := token.attrs.pop("style", None):  # the content policy forbids styles in attributes
                token.attrSet("class", str(style).replace("text-align:", "align-"))
        outline = tuple(self._headings(tokens))
        title = next((heading.text for heading in outline if heading.level == 1), html.escape(name))
        body = self._markdown.renderer.render(tokens, self._markdown.options, {})
        # A wide table scrolls by itself, and by keyboard: the page would be too wide on a phone.
        body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
        body = body.replace("<pre>", '<pre tabindex="0">')
        shown = tuple(each for each in outline if each.level in (2, 3))
        if len(shown) > _MAX_OUTLINE:
            shown = tuple(each for each in shown if each.level == 2)
        return Page(page_path(name), title, body, shown)

    def _headings(self, tokens: list[Any]) -> Iterator[Heading]:
        for opening, inline in itertools.pairwise(tokens):
            if opening.type == "heading_open":
                words = "".join(
                    child.content for child in inline.children or [] if child.type in ("text", "code_inline")
                )
                yield Heading(int(opening.tag[1]), str(opening.attrGet("id") or ""), html.escape(words))

    def _rewrite_links(self, tokens: list[Any], name: str) -> None:
        """Make links between pages absolute paths below /docs/, and links to other files plain text."""
        for token in tokens:
            children = token.children or []
            for child in children:
                if child.type == "image":
                    child.attrSet("src", self._address(str(child.attrGet("src")), name))
                    child.attrSet("loading", "lazy")
            opened: list[Any] = []
            for child in children:
                if child.type == "link_open":
                    opened.append(child)
                    address = self._address(str(child.attrGet("href")), name)
                    child.attrs = {"href": address} if address else {}
                    if _OUTSIDE.match(address):
                        child.attrSet("rel", "noreferrer")
                    child.tag = "a" if address else "span"
                elif child.type == "link_close":
                    child.tag = opened.pop().tag

    def _address(self, target: str, name: str) -> str:
        """Return the address of a link's target; empty if the server does not have it."""
        if _OUTSIDE.match(target) or target.startswith("#"):
            return target
        path, hash_, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        if path.startswith(".."):
            return ""
        if (self._folder / path).is_dir():
            path = posixpath.join(path, "README.md")
        if not (self._folder / path).is_file():
            raise SystemExit(f"docs/{name} links to {target}, which does not exist. Correct the link.")
        if not path.endswith(".md"):
            return f"/docs/{path}" if path.startswith("pictures/") else ""
        page = page_path(path)
        return ("/docs/" if page == "index" else f"/docs/{page}") + hash_ + anchor


def _with_children(tokens: list[Any]) -> list[Any]:
    return [each for token in tokens for each in (token, *(token.children or ()))]


def page_path(name: str) -> str:
    """Return the path of a page for the name of its file: `how-to/install.md` is `how-to/install`."""
    path = name.removesuffix(".md")
    return posixpath.dirname(path) if posixpath.basename(path) == "README" else path


def build_files(folder: Path) -> dict[str, bytes]:
    """Return every file of the site by its path."""
    pages = Renderer(folder).pages()
    files = {f"{page.path}.html": _document(page, pages).encode() for page in pages}
    lost = Page("404", "Page not found", '<h1>Page not found</h1>\n<p><a href="/docs/">All pages</a></p>', ())
    files["404.html"] = _document(lost, pages).encode()
    files["style.css"] = STYLE.read_bytes()
    pictures = {f"pictures/{each.name}": each.read_bytes() for each in sorted((folder / "pictures").glob("*.png"))}
    return files | pictures


def _document(page: Page, pages: list[Page]) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{page.title} · Molecule docs</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<a href="/docs/">Molecule docs</a> <a class="menu" href="#pages">Pages</a> <a href="/app/">Open Molecule</a>
</header>
<div class="columns">
<nav id="pages" aria-label="Pages">
{_navigation(page, pages)}
</nav>
<main id="content">
{page.body}
</main>
{_outline(page)}
</div>
</body>
</html>
"""


def _navigation(page: Page, pages: list[Page]) -> str:
    """Render the list of all pages; only the section of the current page is open."""
    top = [each for each in pages if not each.section]
    lines = ["<ul>", *(_navigation_entry(each, page) for each in sorted(top, key=lambda each: each.path != "index"))]
    lines.append("</ul>")
    for title, places in _SECTIONS:
        members = [each for place in places for each in pages if _is_listed(each, place, page)]
        if members:
            is_open = " open" if page.section == title else ""
            lines += [f"<details{is_open}><summary>{title}</summary>", "<ul>"]
            lines += [_navigation_entry(each, page) for each in members]
            lines += ["</ul>", "</details>"]
    return "\n".join(lines)


def _is_listed(entry: Page, place: str, page: Page) -> bool:
    """Return whether the navigation of a page lists an entry. Folders with an index are listed only inside them."""
    folder, _, name = entry.path.partition("/")
    return folder == place and (not name or place not in _INDEXED or page.path.split("/")[0] == place)


def _navigation_entry(entry: Page, page: Page) -> str:
    title = "Home" if entry.path == "index" else entry.title
    current = ' aria-current="page"' if entry == page else ""
    return f'<li><a href="{entry.url}"{current}>{title}</a></li>'


def _outline(page: Page) -> str:
    """Render the headings of a page; nothing for fewer than three."""
    if len(page.outline) < 3:
        return ""
    entries = [f'<li class="level{each.level}"><a href="#{each.anchor}">{each.text}</a></li>' for each in page.outline]
    return "\n".join(
        ['<nav class="outline" aria-label="On this page">', "<p>On this page</p>", "<ul>", *entries, "</ul>", "</nav>"]
    )


class HtmlDocs:
    """The pages of one checkout and the folder that they are built into."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "docs"
        self.built = root / "src" / "molecule_core" / "html_docs"

    def is_current(self) -> bool:
        """Return whether the built pages are those of docs/ as it is."""
        try:
            built = json.loads((self.built / "build.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(built, dict) and built.get("inputs") == self._input_hash()

    def build(self) -> bool:
        """Build the pages if they are missing or stale. Return whether it was necessary."""
        if self.is_current():
            return False
        inputs, files = self._input_hash(), build_files(self._folder)
        made = Path(tempfile.mkdtemp(prefix="html_docs.", dir=self.built.parent))  # replaced whole: no half a site
        made.chmod(0o755)
        for name, content in files.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (made / "build.json").write_text(json.dumps({"inputs": inputs}) + "\n", encoding="utf-8")
        shutil.rmtree(self.built, ignore_errors=True)
        made.replace(self.built)
        return True

    def _input_hash(self) -> str:
        """Return one hash of everything that decides what the pages are."""
        digest = hashlib.sha256()
        files = [*sorted(self._folder.rglob("*.md")), *sorted(self._folder.glob("pictures/*.png"))]
        for path in [*files, STYLE, Path(__file__)]:
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode() + content)
        return digest.hexdigest()
