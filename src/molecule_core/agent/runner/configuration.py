"""The configuration file of a runner: what its owner lets operators start. docs/how-to/runner.md explains it."""

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

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

# Commands that delegators may require as checks of an agent's answer. They run in the folder of the agent, as the user
# of the runner. Files that match `unchanged` must stay as they were when the agent was added.
# [checks.tests]
# argv = ["python3", "-m", "pytest", "-q"]
# timeout = 600
# unchanged = ["tests/**/*.py"]

# Folders of workspaces whose agents this runner does not start.
# [check_folders]
# "WORKSPACE_ID" = "/home/me/project"
"""


class CheckCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """A command that may check the work of agents. `argv`: program and arguments, run in the folder of the agent.

    `timeout`: seconds, then it has failed. `unchanged`: patterns of files in the folder that no agent may change."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    timeout: Annotated[int, Meta(ge=1, le=86_400)] = 600
    unchanged: tuple[str, ...] = ()


class RunnerConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner of a machine allows. `programs`: paths of programs that are not on PATH, by kind.

    `checks`: commands that may check answers, by name; `check_folders`: where they run for workspaces whose agents the
    runner does not start, by workspace id."""

    folders: tuple[str, ...] = ()
    kinds: tuple[str, ...] = tuple(KINDS)
    allow_skipping_permissions: bool = False
    programs: dict[str, str] = {}
    checks: dict[Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")], CheckCommand] = {}
    check_folders: dict[str, str] = {}


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
    if bad := [each for each in found.check_folders.values() if not Path(each).expanduser().is_absolute()]:
        raise ConfigurationError(f"{file} must name absolute folders, not {bad[0]!r}")
    if relative := [each for each in found.folders if not Path(each).expanduser().is_absolute()]:
        raise ConfigurationError(f"{file} must name absolute folders, not {relative[0]!r}")
    return found
