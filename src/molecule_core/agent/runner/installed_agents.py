"""Finds the agents that are installed on this machine, and their versions."""

import asyncio
import contextlib
import re
import shutil
from collections.abc import Mapping

from msgspec import Struct

from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.kinds import KINDS
from molecule_core.agent.runner.policy import allowed_modes
from molecule_core.common.clock import Clock
from molecule_core.wire.schemas.runners import InstalledAgent

_VERSION = re.compile(rb"\d+(?:\.\d+)+[\w.+-]*")
# opencode needs 2 s on a slow machine; a program that hangs must not keep the runner from its work.
_SECONDS = 15.0
_MAX_LENGTH = 50


class FoundAgent(Struct, frozen=True):
    """An installed agent and the path of its program."""

    program: str
    report: InstalledAgent


async def find_installed_agents(
    configuration: RunnerConfiguration, environment: Mapping[str, str], clock: Clock
) -> dict[str, FoundAgent]:
    """Return the installed agents of allowed kinds, by kind."""
    names = [each for each in KINDS if each in configuration.kinds]
    paths = {name: _find_program(name, configuration, environment) for name in names}
    programs = {name: path for name, path in paths.items() if path is not None}
    versions = await asyncio.gather(*(_read_version(path, environment, clock) for path in programs.values()))
    return {
        name: FoundAgent(
            path, InstalledAgent(name, KINDS[name].title, version, allowed_modes(KINDS[name], configuration))
        )
        for (name, path), version in zip(programs.items(), versions, strict=True)
    }


def _find_program(name: str, configuration: RunnerConfiguration, environment: Mapping[str, str]) -> str | None:
    program = configuration.programs.get(name, KINDS[name].program)
    return shutil.which(program, path=environment.get("PATH"))


async def _read_version(program: str, environment: Mapping[str, str], clock: Clock) -> str:
    """Return the version that a program prints, or an empty text."""
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            program, "--version", stdin=null, stdout=pipe, stderr=null, env=dict(environment), start_new_session=True
        )
    except OSError:
        return ""
    printed = asyncio.ensure_future(process.communicate())
    if not await clock.wait(asyncio.shield(printed), _SECONDS):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        printed.cancel()
        await asyncio.gather(printed, return_exceptions=True)
        return ""
    found = _VERSION.search(printed.result()[0])
    return found[0].decode()[:_MAX_LENGTH] if found else ""
