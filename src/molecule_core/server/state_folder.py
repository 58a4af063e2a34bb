"""State folder of a server, and the admin token in it.

Called by cli and `server/asgi.py`.
"""

import os
from pathlib import Path

from molecule_core.common.errors import BadSettings
from molecule_core.common.ids import SystemRandomness
from molecule_core.common.logs import register_secret
from molecule_core.common.settings import Settings, configured_admin_token, environment
from molecule_core.common.tokens import MIN_ADMIN_TOKEN_LENGTH, new_admin_token

ADMIN_TOKEN_FILE = "admin-token"


def prepare_state_folder(settings: Settings) -> Path:
    """Create the state folder, private to its owner. Raises BadSettings."""
    folder = settings.state_folder
    try:
        # Parents are created private too: the demo's folder is inside the state folder.
        for each in (*reversed(folder.parents), folder):
            each.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BadSettings(reason=f"the state folder {folder} cannot be made: {error.strerror}") from None
    return folder


def ensure_admin_token(settings: Settings) -> str:
    """Return the admin token: the configured one, else the one in the state folder, created if missing (mode 0600)."""
    if configured := configured_admin_token(environment()):
        if len(configured) < MIN_ADMIN_TOKEN_LENGTH:
            raise BadSettings(reason=f"MOLECULE_ADMIN_TOKEN must have at least {MIN_ADMIN_TOKEN_LENGTH} characters")
        register_secret(configured)
        return configured
    path = prepare_state_folder(settings) / ADMIN_TOKEN_FILE
    token = new_admin_token(SystemRandomness())
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _read_token_file(path)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _read_token_file(path: Path) -> str:
    """Return the token in a file. Raises BadSettings for an empty or truncated one, which would be easy to guess."""
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < MIN_ADMIN_TOKEN_LENGTH:
        raise BadSettings(reason=f"{path} holds no admin token; remove the file, and the next start makes a new one")
    return token
