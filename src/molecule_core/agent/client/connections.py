"""Creates one client per workspace with its own token; workspaces of one server share connections.

Loads the HTTP client, so it must not be imported before the first response to the host.
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
# A connecting workspace needs a connection, whose memory is kept afterwards.
_MAX_CONCURRENT_CONNECTS = 8


class ServerConnections:
    """Clients and connection pools by server. Clients always carry the current token."""

    def __init__(self, tokens: TokenRegistry) -> None:
        self._tokens = tokens
        self._connections: dict[str, ConnectionPool] = {}
        self._apis: dict[str, tuple[str, ApiClient]] = {}
        self._connect_gates: dict[str, asyncio.Semaphore] = {}

    def api(self, workspace_id: str, url: str) -> ApiClient:
        """Return the client of a workspace. Raises UnknownWorkspace."""
        token = self._tokens.token(workspace_id)
        known = self._apis.get(workspace_id)
        if known is None or known[0] != token:
            connections = self._connections.get(url)
            if connections is None:
                connections = self._connections[url] = ConnectionPool(url)
            known = self._apis[workspace_id] = (token, ApiClient(url, token, connections=connections))
        return known[1]

    def connect_gate(self, url: str) -> asyncio.Semaphore:
        """Return the server's semaphore, which limits how many of its workspaces connect at once."""
        if url not in self._connect_gates:
            self._connect_gates[url] = asyncio.Semaphore(_MAX_CONCURRENT_CONNECTS)
        return self._connect_gates[url]

    async def close(self) -> None:
        """Close all connections."""
        for each in self._connections.values():
            await each.close()


class WorkspaceRequester:
    """Requester of one workspace that reads the current token for each request.

    Implements `Requester` over HTTP.
    """

    def __init__(self, workspace: WorkspaceConfig, servers: ServerConnections, tokens: TokenRegistry) -> None:
        self._workspace = workspace
        self._servers = servers
        self._tokens = tokens

    def api(self) -> ApiClient:
        """Return the current client; not to be kept."""
        return self._servers.api(self._workspace.id, self._workspace.url)

    @property
    def is_token_renewable(self) -> bool:
        """Return whether the token is in a file and can be renewed."""
        return self._workspace.token_file is not None

    @property
    def token(self) -> str:
        """Return the current token."""
        return self._tokens.token(self._workspace.id)

    def _reload_token(self) -> None:
        """Reload the token from its file, which may have a new one."""
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
        """Return the decoded response. Raises ApiError, NoAnswerError.

        A request rejected for its token was not executed, so it is retried once if there is a newer token.
        """
        token = self.token
        try:
            return await self.api().call(method, path, body=body, query=query, headers=headers)
        except ApiError as error:
            if error.status != _UNAUTHORIZED or not self.has_newer_token(token):
                raise
        return await self.api().call(method, path, body=body, query=query, headers=headers)

    def has_newer_token(self, token: str) -> bool:
        """Return whether there is a newer token than this one, reading the file if needed."""
        if self.token == token:
            self._reload_token()
        return self.token != token
