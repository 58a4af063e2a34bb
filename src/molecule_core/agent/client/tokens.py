"""Maps workspaces to tokens. Written under a lock and read without one: readers see the old or the new table."""

import threading


class UnknownWorkspace(Exception):
    """No token is known for a workspace: it is none of this agent's. Never another workspace's token."""


class TokenRegistry:
    """Tokens of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}

    def register(self, workspace_id: str, token: str) -> None:
        """Add a workspace's token. Raises ValueError if it has a different one; use `rotate` to replace it."""
        with self._lock:
            if self._tokens.get(workspace_id, token) != token:
                raise ValueError(f"workspace {workspace_id} already has a token")
            self._tokens = {**self._tokens, workspace_id: token}

    def rotate(self, workspace_id: str, token: str) -> None:
        """Replace a workspace's token. Raises UnknownWorkspace."""
        with self._lock:
            self.token(workspace_id)
            self._tokens = {**self._tokens, workspace_id: token}

    def clear(self, workspace_id: str | None = None) -> None:
        """Remove one token, or all."""
        with self._lock:
            remaining = {} if workspace_id is None else dict(self._tokens)
            remaining.pop(workspace_id or "", None)
            self._tokens = remaining

    def token(self, workspace_id: str) -> str:
        """Return the token of a workspace. Raises UnknownWorkspace."""
        try:
            return self._tokens[workspace_id]
        except KeyError:
            raise UnknownWorkspace(workspace_id) from None

    def __contains__(self, workspace_id: object) -> bool:
        return workspace_id in self._tokens
