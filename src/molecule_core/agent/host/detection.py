"""Detects the host program by its name in the handshake and its command line. Pure."""

from typing import Any

from molecule_core.wire.schemas.runtimes import Runtime, runtime_for_name

CHANNEL_CAPABILITY = "claude/channel"
_CHANNEL_HOSTS = ("claude-code",)
"""Hosts that display channel messages."""
_CHANNEL_OPTIONS = ("--channels", "--dangerously-load-development-channels")
"""Options without which such a host drops them."""
_HOOK_HOSTS = ("claude-code",)
"""Hosts whose hooks reach the agent's process."""


def runtime_of(client: dict[str, Any]) -> Runtime:
    """Return how a host names our tools to its model, by the name in its handshake."""
    return runtime_for_name(str(client.get("name", "")))


def wants_channel(setting: str, client: dict[str, Any]) -> bool:
    """Return whether a host is offered the channel and pushed to; `setting` is `auto`, `on` or `off`."""
    return setting == "on" or (setting == "auto" and str(client.get("name", "")).lower() in _CHANNEL_HOSTS)


def has_hooks(client: dict[str, Any]) -> bool:
    """Return whether a host may run our hooks."""
    return str(client.get("name", "")).lower() in _HOOK_HOSTS


def shows_channel(command_line: list[str]) -> bool:
    """Return whether a host was started with the option that makes it display channel messages."""
    return any(word.partition("=")[0] in _CHANNEL_OPTIONS for word in command_line)
