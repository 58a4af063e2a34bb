"""State folder of a server, and the admin token in it.

Called by cli and `server/asgi.py`.
"""

import errno
import os
from pathlib import Path

from molecule_core.common.errors import BadSettings
from molecule_core.common.ids import SystemRandomness
from molecule_core.common.logs import register_secret
from molecule_core.common.settings import ADMIN_TOKEN_VARIABLE, Settings, configured_admin_token, environment
from molecule_core.common.state_files import (
    ADMIN_TOKEN_FILE,
    FULL_DISK_ERRORS,
    create_private_folder,
    disk_full_error,
    match_handle_owner,
)
from molecule_core.common.tokens import MIN_ADMIN_TOKEN_LENGTH, new_admin_token


def prepare_state_folder(settings: Settings) -> Path:
    """Create the state folder, private to its owner. Raises BadSettings, StartFailed, PermissionError."""
    folder = settings.state_folder
    try:
        create_private_folder(folder)  # with its parents: the demo's folder is inside the state folder
    except OSError as error:
        if error.errno in FULL_DISK_ERRORS:
            raise disk_full_error(folder) from None
        raise BadSettings(
            reason=f"the state folder {folder} cannot be created: {error.strerror}. Choose another --state-dir."
        ) from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return folder


def server_admin_token(settings: Settings) -> str:
    """Return the admin token of a server that starts, as `ensure_admin_token` does.

    Raises BadSettings for an empty variable: each of several processes would make a token of its own."""
    if environment().get(ADMIN_TOKEN_VARIABLE) == "":
        raise BadSettings(
            reason=f"{ADMIN_TOKEN_VARIABLE} is empty. Set it to the admin token, or remove it from the environment."
        )
    return ensure_admin_token(settings)


def ensure_admin_token(settings: Settings) -> str:
    """Return the admin token: the configured one, else the one in the state folder, created if missing (mode 0600)."""
    if configured := configured_admin_token(environment()):
        if len(configured) < MIN_ADMIN_TOKEN_LENGTH:
            raise BadSettings(
                reason=f"MOLECULE_ADMIN_TOKEN is too short. Use at least {MIN_ADMIN_TOKEN_LENGTH} characters."
            )
        register_secret(configured)
        return configured
    path = prepare_state_folder(settings) / ADMIN_TOKEN_FILE
    token = new_admin_token(SystemRandomness())
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _read_token_file(path)
    match_handle_owner(handle, path.parent)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _read_token_file(path: Path) -> str:
    """Return the token in a file. Raises BadSettings for an empty or truncated one, which would be easy to guess."""
    token = path.read_text(encoding="utf-8-sig", errors="replace").strip()
    if len(token) < MIN_ADMIN_TOKEN_LENGTH:
        raise BadSettings(reason=f"{path} has no admin token. Remove the file; the next start creates a new token.")
    return token
