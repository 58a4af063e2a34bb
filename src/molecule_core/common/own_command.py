"""Shell commands for people that run this installation, for the terminal and for the page."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from molecule_core.common.settings import Settings

_NAMES = ("molecule", "molecule-core")
# Where `login-link --port` looks. A server elsewhere is found by its record in the state folder.
_HOSTS_OF_PORT = ("127.0.0.1", "localhost", "0.0.0.0")


def own_command() -> str:
    """Return the command of this installation, quoted for a shell.

    `molecule` if a new terminal finds it; in a virtual environment its path, since a terminal may not have activated
    it."""
    script = Path(sys.argv[0]).absolute()
    if script.name not in _NAMES or not _is_program(script):
        script = Path(sys.executable).parent / _NAMES[0]
    if not _is_program(script):
        return f"{shlex.quote(sys.executable)} -m molecule_core"
    is_on_path = shutil.which(script.name) == str(script)
    return script.name if is_on_path and not script.is_relative_to(sys.prefix) else shlex.quote(str(script))


def login_link_command(settings: Settings) -> str:
    """Return the command that prints a login link of the server with these settings."""
    has_port = settings.port != 0 and settings.host in _HOSTS_OF_PORT
    port = f" --port {settings.port}" if has_port else ""
    return f"{own_command()} login-link {state_dir_option(settings)}{port}"


def state_dir_option(settings: Settings) -> str:
    """Return the option that names the state folder of a server, for any working directory."""
    return f"--state-dir {shlex.quote(str(settings.state_folder.absolute()))}"


def _is_program(path: Path) -> bool:
    """Return whether a path is a program that this user may start; `Path.is_file` raises in a folder of others."""
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113
