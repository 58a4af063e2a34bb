"""Serves the documentation at /docs: the pages of docs/, rendered and compressed when the package was built.

Public: a person reads how to log in before the first login, and the pages contain no secrets.
"""

from functools import cached_property

from molecule_core.api import packaged_files
from molecule_core.api.http.response import Response
from molecule_core.api.routing import PUBLIC, Request, Route
from molecule_core.common import package_resources
from molecule_core.common.errors import NotFound

_CONTENT_POLICY = (
    b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; "
    b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_REVALIDATE = (b"cache-control", b"no-cache")
_NOT_BUILT_PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Molecule docs</title>
<h1>The documentation has not been built</h1>
<p>Run <code>scripts/docs html</code> in the checkout, or install Molecule from a wheel, which contains the pages.
Then restart the server. The sources are in the folder <code>docs</code>.</p></html>"""


class DocsRoutes:
    """Routes of the documentation."""

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("GET", "/docs", self.redirect_to_index, PUBLIC, "To the documentation", status=302),
            Route("GET", "/docs/{path}", self.get_page, PUBLIC, "The documentation", catch_all=True, media_type="*/*"),
        ]

    async def redirect_to_index(self, _request: Request) -> Response:
        """Redirect to the first page at /docs/."""
        return Response(b"", 302, headers=((b"location", b"/docs/"),))

    async def get_page(self, request: Request) -> Response:
        """Return a page by its path without suffix, a stylesheet or a picture.

        For an unknown path, a browser gets a page with 404. Raises NotFound for other clients."""
        if "index.html" not in self._files:
            kind = packaged_files.content_type("index.html")
            return Response(_NOT_BUILT_PAGE, 503, content_type=kind, content_security_policy=_CONTENT_POLICY)
        path = request.path_params["path"] or "index"
        encodings = request.headers.get(b"accept-encoding", b"")
        if f"{path}.html" in self._files and path != "404":
            return await self._file_response(f"{path}.html", encodings)
        if path.endswith((".css", ".png")) and path in self._files:
            return await self._file_response(path, encodings)
        if b"text/html" not in request.headers.get(b"accept", b""):
            raise NotFound(what="page")
        return await self._file_response("404.html", encodings, status=404)

    async def _file_response(self, path: str, encodings: bytes, *, status: int = 200) -> Response:
        content, headers = await packaged_files.negotiate(self._files, self._gzipped, path, encodings)
        return Response(
            content,
            status,
            headers=(_REVALIDATE, *headers),
            content_type=packaged_files.content_type(path),
            content_security_policy=_CONTENT_POLICY,
        )

    @cached_property
    def _gzipped(self) -> dict[bytes, bytes]:
        """Return what was sent compressed by gzip, by content."""
        return {}

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """Return all files by path, read at the first request (a few megabytes)."""
        return packaged_files.read_files(package_resources.PACKAGE_FOLDER / "html_docs")
