"""Serves the built canvas: the files of `canvas_assets`."""

from functools import cached_property

from molecule_core.api import packaged_files
from molecule_core.api.http.response import Response
from molecule_core.api.routing import PUBLIC, Request, Route
from molecule_core.common import package_resources
from molecule_core.common.errors import RouteNotFound
from molecule_core.common.metrics import RouteMeter

_CONTENT_POLICY = (
    # control: canvas-script-policy
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"font-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types molecule-worker"
)
# File names in assets/ contain a hash of the content, so a cached copy never goes stale.
_CACHE_FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")
_REVALIDATE = (b"cache-control", b"no-cache")
_NOT_BUILT_PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Molecule</title>
<h1>The canvas has not been built</h1>
<p>The server runs, and agents can use it. To get the page, run <code>scripts/canvas build</code> in the checkout,
or install Molecule from a wheel, which carries it. Then load this page again.</p></html>"""
_NOT_FOUND_PAGE = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Page not found | Molecule</title>
<h1>Page not found</h1>
<p>The link may be incomplete, or from a newer version of Molecule. <a href="/app/">Open Molecule</a></p></html>"""


class CanvasRoutes:
    """Routes of the canvas. A path under /app that is no file gets the page, which routes by the path itself."""

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("GET", "/", self.redirect_to_canvas, PUBLIC, "Redirect to the canvas", status=302),
            Route("GET", "/app", self.redirect_to_canvas, PUBLIC, "Redirect to the canvas", status=302),
            Route(
                "GET",
                "/app/{path}",
                self.get_file,
                PUBLIC,
                "Get a file of the canvas",
                catch_all=True,
                media_type="*/*",
            ),
        ]

    def not_found_page(self, meter: RouteMeter) -> Route:
        """Return the route for browsers that ask for a path of no route. It is in no list of routes."""
        return Route("GET", "/{path}", self.get_not_found_page, PUBLIC, "Say that there is no such page", meter=meter)

    async def get_not_found_page(self, _request: Request) -> Response:
        """Return a page that says that there is none, with a link to the canvas."""
        kind = packaged_files.content_type("index.html")
        return Response(_NOT_FOUND_PAGE, 404, content_type=kind, content_security_policy=_CONTENT_POLICY)

    async def redirect_to_canvas(self, _request: Request) -> Response:
        """Redirect to the canvas at /app/."""
        return Response(b"", 302, headers=((b"location", b"/app/"),))

    async def get_file(self, request: Request) -> Response:
        """Return a file of the canvas, or the page itself for any other path."""
        path = request.path_params["path"]
        encodings = request.headers.get(b"accept-encoding", b"")
        if path in self._files:
            return await self._file_response(path, encodings)
        if path.startswith("assets/"):
            raise RouteNotFound
        if "index.html" not in self._files:
            kind = packaged_files.content_type("index.html")
            return Response(_NOT_BUILT_PAGE, 503, content_type=kind, content_security_policy=_CONTENT_POLICY)
        return await self._file_response("index.html", encodings)

    async def _file_response(self, path: str, encodings: bytes) -> Response:
        cache_header = _CACHE_FOREVER if path.startswith("assets/") else _REVALIDATE
        content, encoding_headers = await packaged_files.negotiate(self._files, self._gzipped, path, encodings)
        headers = [cache_header, *encoding_headers]
        kind = packaged_files.content_type(path)
        # control: canvas-answer-policy
        return Response(content, headers=tuple(headers), content_type=kind, content_security_policy=_CONTENT_POLICY)

    @cached_property
    def _gzipped(self) -> dict[bytes, bytes]:
        """Return what was sent compressed by gzip, by content."""
        return {}

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """Return all files by path, read at the first request (less than a megabyte)."""
        return packaged_files.read_files(package_resources.PACKAGE_FOLDER / "canvas_assets")
