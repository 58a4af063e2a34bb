"""Decides what a runner starts: only kinds, folders and modes that its owner allows, and never a command."""

from pathlib import Path

from msgspec import Struct

from molecule_core.agent.runner.configuration import RunnerConfiguration
from molecule_core.agent.runner.kinds import KINDS, AgentKind
from molecule_core.wire.schemas.runners import ATTACHED_MODE


class RefusedError(Exception):
    """A request that the runner does not carry out; the text says why."""


class AgentStart(Struct, frozen=True):
    """An agent that may be started. `folder`: with all symbolic links resolved."""

    kind: str
    folder: str
    mode: str


def allowed_modes(kind: AgentKind, configuration: RunnerConfiguration) -> tuple[str, ...]:
    """Return the modes of a kind that the owner allows, the default first."""
    if configuration.allow_skipping_permissions:
        return kind.modes
    return tuple(each for each in kind.modes if each not in kind.skipping_modes)


def check_start(kind_name: str, folder: str, mode: str, configuration: RunnerConfiguration) -> AgentStart:
    """Check an agent to start. Raises RefusedError."""
    kind = KINDS.get(kind_name) if kind_name in configuration.kinds else None
    if kind is None:
        raise RefusedError(
            f"the runner cannot start {kind_name[:50]!r}: its configuration allows {', '.join(configuration.kinds)}"
        )
    modes = allowed_modes(kind, configuration)
    if mode and mode not in modes:
        if mode in kind.skipping_modes:
            raise RefusedError(
                f"the mode {mode!r} skips permission prompts. The owner of the machine can set "
                "allow_skipping_permissions in runner.toml"
            )
        raise RefusedError(f"{kind.title} cannot be started in mode {mode[:50]!r}: use {', '.join(modes) or 'no mode'}")
    return AgentStart(kind.name, str(find_folder(folder, configuration)), mode or next(iter(modes), ""))


def check_attach(kind_name: str, folder: str, configuration: RunnerConfiguration) -> AgentStart:
    """Check an agent that a person starts, to connect it. Raises RefusedError."""
    start = check_start(kind_name, folder, "", configuration)
    return AgentStart(start.kind, start.folder, ATTACHED_MODE)


def find_folder(folder: str, configuration: RunnerConfiguration) -> Path:
    """Return the real folder; create it if only its last part is missing. Raises RefusedError."""
    asked = Path(folder)
    if not asked.is_absolute() or "\x00" in folder:
        raise RefusedError(f"the folder {folder[:200]!r} must be an absolute path")
    allowed = [each for each in map(_resolve, configuration.folders) if each is not None]
    try:
        real = asked.resolve(strict=False)
        if not any(real.is_relative_to(each) for each in allowed):
            raise RefusedError(
                f"the folder {folder[:200]!r} is not below a folder that runner.toml allows: "
                f"{', '.join(map(str, allowed)) or 'it allows none'}"
            )
        if not real.exists() and real.parent.is_dir():
            real.mkdir(mode=0o700)
    except (OSError, RuntimeError) as error:
        raise RefusedError(f"the folder {folder[:200]!r} cannot be used: {error}") from None
    if not real.is_dir():
        raise RefusedError(f"the folder {folder[:200]!r} does not exist")
    return real


def _resolve(folder: str) -> Path | None:
    """Return an allowed folder with symbolic links resolved; None if it does not exist."""
    try:
        return Path(folder).expanduser().resolve(strict=True)
    except (OSError, RuntimeError):
        return None
