"""The file in which the process of a host confirms its first contact with the server, beside the token that it uses.

`molecule connect` creates it empty after it has written the host's configuration. The process of an agent that has this
token, and no other, fills it. So an agent that runs in another host is never mistaken for this one.
"""

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

_SUFFIX = ".contact"
_MODE = 0o600


class Contact(Struct, frozen=True):
    """A process of an agent that the server has accepted, and the number of tools that it offers."""

    pid: int
    tools: int


class ContactFile:
    """The file of one host and workspace."""

    def __init__(self, token_file: Path) -> None:
        self._path = token_file.with_name(token_file.name + _SUFFIX)

    def request(self) -> None:
        """Create the file, empty. Raises OSError."""
        self.remove()
        os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE))

    def read(self) -> Contact | None:
        """Return the contact, or None while there is none."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Contact)
        except (OSError, msgspec.DecodeError):
            return None

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)

    def is_requested(self) -> bool:
        """Return whether the file is there and empty."""
        try:
            return self._path.stat().st_size == 0
        except OSError:
            return False

    def confirm(self, tools: int) -> None:
        """Fill the file if it is there and empty."""
        with contextlib.suppress(OSError):  # without it, `molecule connect` only waits longer
            if self.is_requested():
                self._path.write_bytes(msgspec.json.encode(Contact(os.getpid(), tools)))
