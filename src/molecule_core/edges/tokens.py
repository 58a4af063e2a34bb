"""Tokens of workspaces: list, issue, revoke, rotate; and how an agent connects. No token is ever shown twice."""

from typing import Any

from msgspec import Struct

from molecule_core.access.model import Role, Token
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.edges.live import Live
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.workspaces import connection
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidField
from molecule_core.org.model import Workspace

_REVOKED = "the token was revoked"


class Rotate(Struct, forbid_unknown_fields=True):
    """How long the old tokens are still good."""

    grace_seconds: int = 0


class TokenView(Struct, omit_defaults=True):
    """A live token. `hint` is its beginning; `auth_token`, the whole, only in the answer that makes it."""

    id: str
    hint: str
    created_at: str
    expires_at: str | None = None
    auth_token: str | None = None


class TokenEdge:
    """The routes of a workspace's credentials."""

    def __init__(self, writer: AccessWriter, reader: AccessReader, live: Live, *, public_url: str) -> None:
        self._writer = writer
        self._reader = reader
        self._live = live
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        tokens, external = "/workspaces/{id}/tokens", "/workspaces/{id}/external"
        operator_of = Who(PEOPLE, Reach.OWN, Role.OPERATOR)
        return [
            Route("GET", tokens, self.list, operator_of, "The live tokens of a seat", None, list[TokenView]),
            Route("POST", tokens, self.issue, operator_of, "One more token of a seat", None, TokenView, 201),
            Route("DELETE", f"{tokens}/{{token_id}}", self.revoke, operator_of, "Revoke a token of a seat"),
            Route(
                "POST",
                f"{external}/rotate",
                self.rotate,
                operator_of,
                "A new token instead of all others",
                Rotate,
                bare=True,
            ),
            Route("GET", f"{external}/connection", self.connection, operator_of, "How an agent connects"),
        ]

    async def list(self, call: Call) -> Answer:
        """Hints and times; never a token."""
        return json_answer([token_view(each) for each in await self._reader.workspace_tokens(call.target.id)])

    async def issue(self, call: Call) -> Answer:
        """A token beside the others, shown this once."""
        issued = await self._writer.issue_workspace_token(call.target.org_id, call.target.id)
        return json_answer(token_view(issued.about, issued.token), 201)

    async def revoke(self, call: Call) -> Answer:
        """The token opens nothing any more, and its live channels end."""
        workspace = call.target
        token = await self._writer.revoke_workspace_token(workspace.org_id, workspace.id, call.params["token_id"])
        self._live.end((token.hash,), _REVOKED)
        return json_answer({"status": "revoked", "id": token.id})

    async def rotate(self, call: Call) -> Answer:
        """A new token, shown this once; the old ones end at once, or after `grace_seconds`."""
        grace, most = call.read(Rotate).grace_seconds, call.limits.grace_seconds
        if not 0 <= grace <= most:
            raise InvalidField(reason=f"grace_seconds must lie between 0 and {most}")
        rotated = await self._writer.rotate(call.target.org_id, call.target.id, grace)
        self._live.end(rotated.ended, _REVOKED, rotated.ends_at)
        answer: dict[str, Any] = {
            "status": "rotated",
            "connection": self._connection(call.target, rotated.issued.token),
            "ended": len(rotated.ended),
            "ends_at": rfc3339(rotated.ends_at),
        }
        return json_answer(answer)

    async def connection(self, call: Call) -> Answer:
        """The same as when the seat was made, but for the token."""
        return json_answer({"connection": self._connection(call.target, None)})

    def _connection(self, workspace: Workspace, token: str | None) -> dict[str, str]:
        return connection(workspace.id, token, self._public_url, mode=workspace.delivery_mode)


def token_view(token: Token, secret: str | None = None) -> TokenView:
    """A token as people see it."""
    expires_at = None if token.expires_at is None else rfc3339(token.expires_at)
    return TokenView(token.id, token.hint, rfc3339(token.created_at), expires_at, secret)
