"""The configuration file of a runner: what its owner lets operators start. docs/how-to/runner.md explains it."""

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.kinds import KINDS

CONFIGURATION_FILE = "runner.toml"
AGENTS_FOLDER = "work"
"""Folder in the runner's state folder that agents may work in by default."""
_DEFAULT_TEXT = """\
# What operators may start on this machine. Restart `molecule runner` after a change.

# Agents may work in these folders and below.
folders = {folders}

# Kinds of agents: claude, codex, gemini, opencode.
kinds = {kinds}

# Whether agents may run in modes that skip permission prompts, such as bypassPermissions of Claude Code.
allow_skipping_permissions = false
"""


class RunnerConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner of a machine allows. `programs`: paths of programs that are not on PATH, by kind."""

    folders: tuple[str, ...] = ()
    kinds: tuple[str, ...] = tuple(KINDS)
    allow_skipping_permissions: bool = False
    programs: dict[str, str] = {}


def load_runner_configuration(state: Path) -> RunnerConfiguration:
    """Return the configuration in a state folder; write the default one first if there is none.

    Raises ConfigurationError."""
    file = state / CONFIGURATION_FILE
    try:
        if not file.exists():
            work = state / AGENTS_FOLDER
            work.mkdir(mode=0o700, exist_ok=True)
            folders, kinds = msgspec.json.encode([str(work)]).decode(), msgspec.json.encode(list(KINDS)).decode()
            file.write_text(_DEFAULT_TEXT.format(folders=folders, kinds=kinds), encoding="utf-8")
        return _parse(file.read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


def _parse(text: str, file: Path) -> RunnerConfiguration:
    try:
        found = msgspec.convert(tomllib.loads(text), RunnerConfiguration)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{file} is not valid: {error}") from None
    if unknown := {*found.kinds, *found.programs} - KINDS.keys():
        raise ConfigurationError(f"{file} names unknown kinds: {', '.join(sorted(unknown))}. Use: {', '.join(KINDS)}")
    if relative := [each for each in found.folders if not Path(each).expanduser().is_absolute()]:
        raise ConfigurationError(f"{file} must name absolute folders, not {relative[0]!r}")
    return found
