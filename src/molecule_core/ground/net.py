"""Safe fetch: the one way by which the server itself asks another server, since others write the urls.

Every url passes one path: read strictly, resolved once, every address checked, and then the connection goes to exactly
the address that was checked. docs/fetch.md tells operators what is allowed.
"""

from typing import Protocol

from msgspec import Struct


class Fetched(Struct, frozen=True):
    """An answer. The names of the headers are in lower case; a name that came twice has its values joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes


class Fetcher(Protocol):
    """What a part that pushes or fetches is given; a test gives it one that stays at home.

    Raises UnsafeUrl if the url leads, or may lead, to where nobody allowed it to; no connection was made then.
    Raises FetchFailed if there is no usable answer: nobody there, too late, too large, a redirect (3xx), not HTTP.
    `details["reason"]` of both is for people: it names a host at most, never a path, a query or a header. Every other
    status is an answer and is returned, also 4xx and 5xx."""

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> Fetched:
        """Sends a body. The time is for everything from the name's resolution to the answer's last byte."""

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> Fetched:
        """Asks for what is there."""

    async def check(self, url: str) -> None:
        """For the moment somebody registers a url: all that a fetch would check, without a connection. Raises
        UnsafeUrl, also if the name does not resolve."""
