"""Clients of the servers, one for each workspace, each with its own token; workspaces of one server share connections.

Above: memberships, verbs. Below: client, which is loaded with this module: not before the host's first answer.
"""

import asyncio
import logging
from typing import Any

from molecule_core.agent.config import BadConfiguration, SeatConfig, read_token
from molecule_core.agent.tokens import TokenRegistry
from molecule_core.client.api import Api, ApiError, Connections
from molecule_core.ground.logs import hide

_log = logging.getLogger("molecule.agent")
_UNAUTHORIZED = 401
# Each needs a connection while it is taken, and keeps its memory for ever.
_AT_ONCE = 8


class Servers:
    """Hands out clients. A client always carries the token that the registry has at that moment."""

    def __init__(self, tokens: TokenRegistry) -> None:
        self._tokens = tokens
        self._shared: dict[str, Connections] = {}
        self._apis: dict[str, tuple[str, Api]] = {}
        self._doors: dict[str, asyncio.Semaphore] = {}

    def api(self, workspace_id: str, url: str) -> Api:
        """The client of a workspace. Raises UnknownWorkspace."""
        token = self._tokens.token(workspace_id)
        known = self._apis.get(workspace_id)
        if known is None or known[0] != token:
            shared = self._shared.get(url)
            if shared is None:
                shared = self._shared[url] = Connections(url)
            known = self._apis[workspace_id] = (token, Api(url, token, connections=shared))
        return known[1]

    def door(self, url: str) -> asyncio.Semaphore:
        """Held by a seat while it is taken: a hundred of one server come a few at a time. Each server has its own."""
        if url not in self._doors:
            self._doors[url] = asyncio.Semaphore(_AT_ONCE)
        return self._doors[url]

    async def close(self) -> None:
        """Lets go of all connections."""
        for each in self._shared.values():
            await each.close()


class Seated:
    """Requests as one seat, with the token that it has at that moment: whoever keeps this keeps no old one. (A
    `Speaks`, but that it raises ApiError and NoAnswer.)"""

    def __init__(self, seat: SeatConfig, servers: Servers, tokens: TokenRegistry) -> None:
        self._seat = seat
        self._servers = servers
        self._tokens = tokens

    def api(self) -> Api:
        """The client of this moment; not to be kept."""
        return self._servers.api(self._seat.id, self._seat.url)

    @property
    def renews(self) -> bool:
        """Whether the token stands in a file, which somebody may renew."""
        return self._seat.token_file is not None

    @property
    def token(self) -> str:
        """The token of this moment."""
        return self._tokens.token(self._seat.id)

    def _read_token_again(self) -> None:
        """Somebody may have written a new token into the file."""
        if self._seat.token_file is None:
            return
        try:
            token = read_token(self._seat.token_file)
        except BadConfiguration as error:
            _log.warning("workspace %s: %s", self._seat.id, error)
            return
        hide(token)
        self._tokens.rotate(self._seat.id, token)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer. What is refused for its token, and so was not done, is asked once more if there is
        another token by then. Raises ApiError, NoAnswer."""
        token = self.token
        try:
            return await self.api().call(method, path, body=body, query=query, headers=headers)
        except ApiError as error:
            if error.status != _UNAUTHORIZED or not self.has_another(token):
                raise
        return await self.api().call(method, path, body=body, query=query, headers=headers)

    def has_another(self, token: str) -> bool:
        """Whether there is another token by now than this one, perhaps in the file."""
        if self.token == token:
            self._read_token_again()
        return self.token != token
