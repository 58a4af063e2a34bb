"""Session cookies of a browser, one for each organisation in which it is logged in.

A page names the organisation that it shows with each request, so that a tab never acts in another one. A request that
names none is of the browser's only login; with several logins it is of none."""

import re
from collections.abc import Iterator

ORG_HEADER = b"x-molecule-org"
"""The organisation whose login a request uses."""
ORG_PARAM = b"session_org="
"""The same in the query, for requests that cannot have the header: WebSockets, pictures and downloads."""
_MAX_ORG_LENGTH = 64
_COOKIE_END = re.compile(rb"\.[0-9A-Za-z-]+")


class SessionCookies:
    """Names and values of the session cookies of one server. `base`: name of the cookie of earlier versions, which
    belongs to any organisation."""

    def __init__(self, base: str) -> None:
        self._base = base.encode()

    def name(self, org_id: str) -> str:
        """Return the name of the cookie for an organisation; empty: of the one that names none."""
        return f"{self._base.decode()}.{org_id}" if org_id else self._base.decode()

    def tokens(self, headers: dict[bytes, bytes]) -> dict[str, str]:
        """Return the session tokens of a request by organisation; "" for the cookie that names none."""
        return dict(self._pairs(headers))

    def token(self, headers: dict[bytes, bytes]) -> str | None:
        """Return the session token of a request, if it names a login of the browser, or there is only one."""
        tokens = self.tokens(headers)
        org = headers.get(ORG_HEADER)
        if org is None:
            return next(iter(tokens.values())) if len(tokens) == 1 else None
        # Whether the cookie that names no organisation belongs to this one is known once its session is looked up.
        return tokens.get(org.decode("latin-1")) or tokens.get("")

    def org(self, headers: dict[bytes, bytes]) -> str:
        """Return the organisation to which the session of a request must belong; "" for any."""
        named = headers.get(ORG_HEADER)
        return next(iter(self.tokens(headers)), "") if named is None else named.decode("latin-1")

    def source(self, headers: dict[bytes, bytes], token: str) -> str:
        """Return the organisation in the name of the cookie that holds a token."""
        return next((org for org, each in self.tokens(headers).items() if each == token), "")

    def _pairs(self, headers: dict[bytes, bytes]) -> Iterator[tuple[str, str]]:
        for pair in headers.get(b"cookie", b"").split(b";"):
            name, equals, value = pair.strip().partition(b"=")
            if not equals or not value or not name.startswith(self._base):
                continue
            rest = name[len(self._base) :]
            if not rest:
                yield "", value.decode("latin-1")
            elif len(rest) <= _MAX_ORG_LENGTH and _COOKIE_END.fullmatch(rest):
                yield rest[1:].decode("latin-1"), value.decode("latin-1")


def with_org_of_query(headers: dict[bytes, bytes], query: bytes) -> None:
    """Set the header of the organisation from the query, if a request with a cookie has it only there."""
    if ORG_HEADER in headers or b"cookie" not in headers:
        return
    for part in query.split(b"&"):
        if part.startswith(ORG_PARAM):
            headers[ORG_HEADER] = part[len(ORG_PARAM) :][:_MAX_ORG_LENGTH]
            return
