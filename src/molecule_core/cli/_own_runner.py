"""The runner that `molecule up` starts on its own machine, as a process of its own."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.main import prepare_runner_folder, read_runner_token, save_runner_token
from molecule_core.common.errors import CommandFailed
from molecule_core.server.composition import Server
from molecule_core.server.server_record import read_server_record

RUNNER_FOLDER = "runner"
"""Folder of the runner, within the state folder of the server."""
_LOG_FILE = "runner.log"
_DEFAULT_NAME = "This machine"


async def start_runner(server: Server, folder: Path) -> "subprocess.Popen[bytes]":
    """Start the runner; the first time, enrol it in the first organisation. Raises CommandFailed, OSError.

    It ends when the returned process, which holds its standard input, is no longer referenced or this process ends."""
    try:
        prepare_runner_folder(folder)
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None
    if not read_runner_token(folder):
        org_id, name = server.registry.orgs()[0].id, socket.gethostname() or _DEFAULT_NAME
        enrolled = await server.runners.writer.enrol(org_id, name[: server.settings.limits.name_length], "molecule up")
        save_runner_token(folder, enrolled.token)
    record = read_server_record(server.settings.state_folder)
    return _start_process(folder, server.settings.url if record is None else record.address)


def _start_process(folder: Path, url: str) -> "subprocess.Popen[bytes]":
    command = (sys.executable, "-m", "molecule_core", "runner", "--until-eof", "--state", str(folder), "--server", url)
    with (folder / _LOG_FILE).open("wb") as log:
        # A session of its own: Ctrl-C must reach only the server; the runner ends its agents in order.
        return subprocess.Popen(
            command,
            env=public_environment(os.environ),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
