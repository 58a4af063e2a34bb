"""Where the server of a state folder is: written into its lock file once it listens, read by commands.

Called by the listener and cli.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from molecule_core.common.settings import Settings
from molecule_core.common.state_files import match_handle_owner
from molecule_core.common.version import VERSION

LOCK_FILE = "molecule.lock"
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class ServerRecord(Struct, frozen=True):
    """A server that listens. `url`: for agents and people; `address`: on this machine."""

    pid: int
    url: str
    address: str
    version: str


def write_server_record(settings: Settings, host: str, port: int) -> None:
    """Record that this process listens on an address. A state folder that cannot be written has no record."""
    local = _ANY_ADDRESS.get(host, host)
    address = f"http://[{local}]:{port}" if ":" in local else f"http://{local}:{port}"
    url = settings.url if settings.public_url or settings.port else address
    _replace_content(settings.state_folder, msgspec.json.encode(ServerRecord(os.getpid(), url, address, VERSION)))


def clear_server_record(settings: Settings) -> None:
    """Remove the record of this process at its end; that of another process stays."""
    record = read_server_record(settings.state_folder)
    if record is not None and record.pid == os.getpid():
        _replace_content(settings.state_folder, b"")


def read_server_record(state: Path) -> ServerRecord | None:
    """Return the record of a state folder's server; None without one. It stays if the server was killed."""
    try:
        return msgspec.json.decode((state / LOCK_FILE).read_bytes(), type=ServerRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def _replace_content(state: Path, content: bytes) -> None:
    """Replace the content of the lock file. It stays the same file, since the lock is on it."""
    try:
        handle = os.open(state / LOCK_FILE, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        match_handle_owner(handle, state)
        os.ftruncate(handle, 0)
        os.pwrite(handle, content, 0)
    finally:
        os.close(handle)
