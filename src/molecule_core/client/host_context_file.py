"""The copy of a workspace's surroundings that `molecule mcp` shows at the next start.

The process answers its host before it reaches the server, so what it says then comes from the last contact:
`molecule connect` writes the copy beside the token, and the process renews it.
"""

import contextlib
import os
from pathlib import Path

import msgspec

from molecule_core.wire.schemas.host_context import HostContext

CONTEXT_PATH = "/workspaces/{id}/host-context"
"""The route of the surroundings."""
_MODE = 0o600


class HostContextFile:
    """The file of one workspace."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_workspace(cls, workspace_id: str, token_file: Path | None, state: Path) -> "HostContextFile":
        """Return the file beside the token, or that in the state folder if the token is in the environment."""
        if token_file is not None:
            return cls.beside_token(token_file)
        return cls(state / f"{workspace_id}.context")

    @classmethod
    def beside_token(cls, token_file: Path) -> "HostContextFile":
        """Return the file beside a token."""
        return cls(token_file.with_name(token_file.name + ".context"))

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)

    def read(self) -> HostContext | None:
        """Return the surroundings, or None if there is no readable copy."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=HostContext)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, response: object) -> None:
        """Replace the copy by a response of the server. An unknown shape or an unwritable folder keeps the old one."""
        with contextlib.suppress(OSError, msgspec.ValidationError):
            data = msgspec.json.encode(msgspec.convert(response, HostContext))
            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            handle = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, _MODE)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            temporary.replace(self._path)
