"""The built page: its files as they lie in the package, compressed when it was built.

Above: `edges/app.py`. Below: `canvas_assets/`, which the build makes from `canvas/`.
"""

from functools import cached_property
from pathlib import Path

from molecule_core.edges.routes import PUBLIC, Answer, Call, Route
from molecule_core.ground import package
from molecule_core.ground.errors import NoSuchRoute

_POLICY = (
    # control: canvas-script-policy
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "ico": b"image/x-icon",
    "js": b"text/javascript; charset=utf-8",
    "json": b"application/json",
    "png": b"image/png",
    "svg": b"image/svg+xml",
    "woff2": b"font/woff2",
}
_ENCODINGS = ((b"br", ".br"), (b"gzip", ".gz"))
# The names of the files in assets/ hold a hash of their content, so what was fetched once stays right.
_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")
_ASK_AGAIN = (b"cache-control", b"no-cache")
_MISSING = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Molecule</title>
<h1>The canvas has not been built</h1>
<p>The server runs, and agents can use it. To get the page, run <code>scripts/canvas build</code> in the checkout,
or install Molecule from a wheel, which carries it. Then load this page again.</p></html>"""


class CanvasEdge:
    """The routes of the page. Every path under /app is the page's own, but for its files."""

    def routes(self) -> list[Route]:
        """The rows for the table."""
        return [
            Route("GET", "/", self.root, PUBLIC, "To the canvas", status=302),
            Route("GET", "/app", self.root, PUBLIC, "To the canvas", status=302),
            Route("GET", "/app/{path}", self.file, PUBLIC, "The canvas", deep=True, media="*/*"),
        ]

    async def root(self, _call: Call) -> Answer:
        """The canvas lives at /app/."""
        return Answer(b"", 302, headers=((b"location", b"/app/"),))

    async def file(self, call: Call) -> Answer:
        """A file of the page; for every other path the page itself, which reads the path."""
        path = call.params["path"]
        encodings = call.headers.get(b"accept-encoding", b"")
        if path in self._files:
            return self._sent(path, encodings)
        if path.startswith("assets/"):
            raise NoSuchRoute
        if "index.html" not in self._files:
            return Answer(_MISSING, 503, content_type=_TYPES["html"], policy=_POLICY)
        return self._sent("index.html", encodings)

    def _sent(self, path: str, encodings: bytes) -> Answer:
        keep = _FOR_EVER if path.startswith("assets/") else _ASK_AGAIN
        headers = [keep, (b"vary", b"accept-encoding")]
        content = self._files[path]
        taken = _encodings(encodings)
        for name, suffix in _ENCODINGS:
            if name in taken and path + suffix in self._files:
                content = self._files[path + suffix]
                headers.append((b"content-encoding", name))
                break
        kind = _TYPES.get(path.rpartition(".")[2], b"application/octet-stream")
        # control: canvas-answer-policy
        return Answer(content, headers=tuple(headers), content_type=kind, policy=_POLICY)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """All of them: less than a megabyte, read when the first page is asked for."""
        folder = package.FOLDER / "canvas_assets"
        return dict(_below(folder, "")) if folder.is_dir() else {}


def _encodings(accepted: bytes) -> set[bytes]:
    """The encodings that a client takes; one with `q=0` it does not."""
    taken = set()
    for each in accepted.lower().replace(b" ", b"").split(b","):
        name, _, weight = each.partition(b";q=")
        if not weight or weight.strip(b"0."):  # q=0, in any spelling, refuses
            taken.add(name)
    return taken


def _below(folder: Path, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found
