"""Which token speaks for which workspace. Written under a lock, read without one: readers see the old table or the new.

Above: connections. Below: nothing.
"""

import threading


class UnknownWorkspace(Exception):
    """No token is known for a workspace: it is none of this agent's. Never another one's token."""


class TokenRegistry:
    """The tokens of this process. Any thread may call anything."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}

    def register(self, workspace_id: str, token: str) -> None:
        """A token for a workspace that has none; the same token again changes nothing. Raises ValueError if it has
        another one: whoever means that rotates."""
        with self._lock:
            if self._tokens.get(workspace_id, token) != token:
                raise ValueError(f"workspace {workspace_id} has a token already")
            self._tokens = {**self._tokens, workspace_id: token}

    def rotate(self, workspace_id: str, token: str) -> None:
        """Another token for a workspace that has one. Raises UnknownWorkspace."""
        with self._lock:
            self.token(workspace_id)
            self._tokens = {**self._tokens, workspace_id: token}

    def clear(self, workspace_id: str | None = None) -> None:
        """Forgets one token, or all."""
        with self._lock:
            remaining = {} if workspace_id is None else dict(self._tokens)
            remaining.pop(workspace_id or "", None)
            self._tokens = remaining

    def token(self, workspace_id: str) -> str:
        """The token of a workspace. Raises UnknownWorkspace."""
        try:
            return self._tokens[workspace_id]
        except KeyError:
            raise UnknownWorkspace(workspace_id) from None

    def __contains__(self, workspace_id: object) -> bool:
        return workspace_id in self._tokens
