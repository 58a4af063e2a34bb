"""Clients of the servers, one for each workspace, each with its own token; workspaces of one server share connections.

Above: memberships, verbs. Below: client, which is loaded with this module: not before the host's first answer.
"""

import asyncio

from molecule_core.agent.tokens import TokenRegistry
from molecule_core.client.api import Api, Connections

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
