"""Clients of the servers, one for each workspace, each with its own token; workspaces of one server share connections.

Above: memberships, verbs. Below: client, which is loaded with this module: not before the host's first answer.
"""

import asyncio
import logging
from typing import Any

from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.agent.config import ConfigurationError, WorkspaceConfig, read_token
from molecule_core.client.api import ApiClient, ApiError, ConnectionPool
from molecule_core.common.logs import register_secret

_log = logging.getLogger("molecule.agent")
_UNAUTHORIZED = 401
# Each needs a connection while it is taken, and keeps its memory for ever.
_MAX_CONCURRENT_CONNECTS = 8


class ServerConnections:
    """Hands out clients. A client always carries the token that the registry has at that moment."""

    def __init__(self, tokens: TokenRegistry) -> None:
        self._tokens = tokens
        self._connections: dict[str, ConnectionPool] = {}
        self._apis: dict[str, tuple[str, ApiClient]] = {}
        self._connect_gates: dict[str, asyncio.Semaphore] = {}

    def api(self, workspace_id: str, url: str) -> ApiClient:
        """The client of a workspace. Raises UnknownWorkspace."""
        token = self._tokens.token(workspace_id)
        known = self._apis.get(workspace_id)
        if known is None or known[0] != token:
            connections = self._connections.get(url)
            if connections is None:
                connections = self._connections[url] = ConnectionPool(url)
            known = self._apis[workspace_id] = (token, ApiClient(url, token, connections=connections))
        return known[1]

    def connect_gate(self, url: str) -> asyncio.Semaphore:
        """Held by a seat while it is taken: a hundred of one server come a few at a time. Each server has its own."""
        if url not in self._connect_gates:
            self._connect_gates[url] = asyncio.Semaphore(_MAX_CONCURRENT_CONNECTS)
        return self._connect_gates[url]

    async def close(self) -> None:
        """Lets go of all connections."""
        for each in self._connections.values():
            await each.close()


class WorkspaceRequester:
    """Requests as one seat, with the token that it has at that moment: whoever keeps this keeps no old one. (A
    `Speaks`, but that it raises ApiError and NoAnswer.)"""

    def __init__(self, workspace: WorkspaceConfig, servers: ServerConnections, tokens: TokenRegistry) -> None:
        self._workspace = workspace
        self._servers = servers
        self._tokens = tokens

    def api(self) -> ApiClient:
        """The client of this moment; not to be kept."""
        return self._servers.api(self._workspace.id, self._workspace.url)

    @property
    def is_token_renewable(self) -> bool:
        """Whether the token stands in a file, which somebody may renew."""
        return self._workspace.token_file is not None

    @property
    def token(self) -> str:
        """The token of this moment."""
        return self._tokens.token(self._workspace.id)

    def _reload_token(self) -> None:
        """Somebody may have written a new token into the file."""
        if self._workspace.token_file is None:
            return
        try:
            token = read_token(self._workspace.token_file)
        except ConfigurationError as error:
            _log.warning("workspace %s: %s", self._workspace.id, error)
            return
        register_secret(token)
        self._tokens.rotate(self._workspace.id, token)

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
            if error.status != _UNAUTHORIZED or not self.has_newer_token(token):
                raise
        return await self.api().call(method, path, body=body, query=query, headers=headers)

    def has_newer_token(self, token: str) -> bool:
        """Whether there is another token by now than this one, perhaps in the file."""
        if self.token == token:
            self._reload_token()
        return self.token != token
