"""The documentation at /docs: every page and picture answers, every link leads somewhere, and nothing in it can run."""

import gzip
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from molecule_core.api.docs import DocsRoutes
from scripts.html_docs import HtmlDocs, Renderer, build_files
from testing.raw_http import Reply, ask
from testing.running_server import Running, running
from tests.architecture.repository import REPO
from tests.requirements import requirement

DOCS_POLICY = {
    "default-src": "'none'",
    "style-src": "'self'",
    "img-src": "'self'",
    "form-action": "'none'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
# What the pages are made of. No script, style, frame, form or object.
HEAD = {"html", "head", "meta", "title", "link", "body"}
LAYOUT = {"header", "nav", "main", "div", "details", "summary"}
TEXT = {
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "ul",
    "ol",
    "li",
    "a",
    "span",
    "code",
    "pre",
    "strong",
    "em",
    "s",
    "blockquote",
    "br",
}
TABLES = {"table", "thead", "tbody", "tr", "th", "td", "img", "hr"}
ATTRIBUTES = {
    *("href", "src", "alt", "id", "class", "lang", "name", "content", "charset", "rel", "loading", "open", "tabindex"),
    *("aria-label", "aria-current", "start"),
}


class Outline(HTMLParser):
    """The tags, attributes, ids and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.addresses.append(value or "")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The site of docs/ as it is now."""
    return build_files(REPO / "docs")


@pytest.fixture
async def site(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    """A server whose package holds the site."""
    monkeypatch.setattr(DocsRoutes, "_files", files)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        yield server


def policy_of(reply: Reply) -> dict[str, str]:
    """The content security policy by directive."""
    directives = reply.headers["content-security-policy"].split(";")
    return {name: value for name, _, value in (each.strip().partition(" ") for each in directives) if name}


@requirement("M9")
async def test_every_page_answers_without_a_credential_and_every_link_leads_to_one(site: Running) -> None:
    seen: dict[str, Outline] = {}
    waiting, linked = ["/docs/"], set[tuple[str, str]]()
    while waiting:
        path = waiting.pop()
        reply = await ask(site.port, "GET", path)
        assert reply.status == 200, path
        assert policy_of(reply) == DOCS_POLICY
        assert reply.headers["cache-control"] == "no-cache"
        if reply.headers["content-type"] != "text/html; charset=utf-8":
            assert reply.headers["content-type"] in ("text/css; charset=utf-8", "image/png")
            seen[path] = Outline("")
            continue
        page = seen[path] = Outline(reply.body.decode())
        assert page.tags <= HEAD | LAYOUT | TEXT | TABLES, path
        assert page.attributes <= ATTRIBUTES, path
        assert len(page.ids) == len(set(page.ids)), path
        for address in page.addresses:
            parts = urlsplit(urljoin(path, address))
            if parts.netloc:
                assert parts.scheme in ("http", "https"), (path, address)
            elif parts.path not in ("/app/",):
                linked.add((parts.path, parts.fragment))
                if parts.path not in seen and parts.path not in waiting:
                    waiting.append(parts.path)

    assert [(path, anchor) for path, anchor in linked if anchor and anchor not in seen[path].ids] == []
    pages = {page.url for page in Renderer(REPO / "docs").pages()}
    assert pages <= seen.keys()
    assert len(pages) > 100
    assert {"/docs/style.css", "/docs/pictures/canvas.png"} <= seen.keys()


async def test_the_docs_without_a_slash_lead_to_the_first_page(site: Running) -> None:
    reply = await ask(site.port, "GET", "/docs")
    assert (reply.status, reply.headers["location"]) == (302, "/docs/")


async def test_a_page_is_sent_compressed_to_a_browser(site: Running, files: dict[str, bytes]) -> None:
    reply = await ask(site.port, "GET", "/docs/reference/cli", headers={"Accept-Encoding": "gzip, br"})
    assert reply.headers["content-encoding"] == "gzip"
    assert gzip.decompress(reply.body) == files["reference/cli.html"]
    assert len(reply.body) * 4 < len(files["reference/cli.html"])


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
UNKNOWN = [
    "nowhere",
    "404",
    "how-to",
    "how-to/",
    "how-to/install/",
    "how-to/install.md",
    "build.json",
    "index.html.gz",
    "style.css.gz",
    "../molecule.db",
    "../../etc/passwd",
    "%2e%2e/molecule.db",
    "..%2f..%2fetc%2fpasswd",
    "..\\..\\api\\docs",
    "how-to/../../common/version",
    "how-to%2f..%2f..%2fcommon%2fversion",
    "%252e%252e/molecule.db",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "file:%2f%2f%2fetc%2fpasswd",
    "index%00",
    "index.html%00.css",
    "%ff",
    "%",
    "../" * 200 + "etc/passwd",
]


@requirement("S14")
async def test_a_path_that_is_no_page_gets_a_404_and_no_file(site: Running) -> None:
    for path in UNKNOWN:
        plain = await ask(site.port, "GET", f"/docs/{path}")
        assert (plain.status in (400, 404), plain.headers["content-type"]) == (True, "application/json"), path
        reply = await ask(site.port, "GET", f"/docs/{path}", headers=BROWSER)
        assert reply.status == plain.status, path
        if reply.headers["content-type"].startswith("text/html"):
            assert b"Page not found" in reply.body
            assert policy_of(reply) == DOCS_POLICY
    page = await ask(site.port, "GET", "/docs/nowhere", headers=BROWSER)
    assert page.body.count(b"Page not found") == 2


async def test_without_built_pages_the_server_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DocsRoutes, "_files", {})
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        for path in ("/docs/", "/docs/how-to/install"):
            reply = await ask(server.port, "GET", path)
            assert reply.status == 503
            assert b"scripts/docs html" in reply.body
            assert policy_of(reply) == DOCS_POLICY
        assert (await ask(server.port, "GET", "/agent-docs/replies")).status == 200


def write_docs(root: Path, text: str) -> HtmlDocs:
    """Write a checkout with one page beside its index."""
    (root / "docs" / "pictures").mkdir(parents=True)
    (root / "src" / "molecule_core").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# Home\n\n## A: `b`\n", encoding="utf-8")
    (root / "docs" / "page.md").write_text(text, encoding="utf-8")
    return HtmlDocs(root)


def page_of(docs: HtmlDocs) -> str:
    """Return the words of the page between <main> and </main>."""
    docs.build()
    text = (docs.built / "page.html").read_text(encoding="utf-8")
    [content] = re.findall(r'<main id="content">\n(.*?)\n</main>', text, re.DOTALL)
    return str(content)


@pytest.mark.parametrize(
    ("markdown", "rendered"),
    [
        ("[home](index.md#a-b)", '<p><a href="/docs/#a-b">home</a></p>'),
        ("[code](../src/a.py) and [web](https://example.com/)",
         '<p><span>code</span> and <a href="https://example.com/" rel="noreferrer">web</a></p>'),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a <token> <img src=x onerror=alert(1)>", "<p>a &lt;token&gt; &lt;img src=x onerror=alert(1)&gt;</p>"),
        ("<!-- check: long: reason -->\na <!-- b --> c", "<p>a  c</p>"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("<details>\n<summary>More</summary>\n\ntext\n\n</details>",
         "<details>\n<summary>More</summary>\n<p>text</p>\n</details>"),
        ("| a |\n|--:|\n| 1 |", '<td class="align-right">1</td>'),
    ],
)  # fmt: skip
def test_markdown_becomes_safe_html(tmp_path: Path, markdown: str, rendered: str) -> None:
    assert rendered in page_of(write_docs(tmp_path, markdown))


def test_a_broken_link_ends_the_build(tmp_path: Path) -> None:
    docs = write_docs(tmp_path, "[gone](gone.md)")
    with pytest.raises(SystemExit, match=r"docs/page\.md links to gone\.md"):
        docs.build()
    assert list(docs.built.parent.iterdir()) == []


def test_pages_are_built_again_only_after_a_change(tmp_path: Path) -> None:
    docs = write_docs(tmp_path, "one")
    assert (docs.build(), docs.build()) == (True, False)
    (tmp_path / "docs" / "page.md").write_text("two", encoding="utf-8")
    assert docs.build()
    assert "two" in page_of(docs)
    assert [each.name for each in docs.built.parent.iterdir()] == ["html_docs"]
