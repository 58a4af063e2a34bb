"""Detects the host program by its name in the handshake. Pure."""

from typing import Any

from molecule_core.tools.spec import Runtime, runtime_for_name

CHANNEL_CAPABILITY = "claude/channel"
_CHANNEL_HOSTS = ("claude-code",)
"""Hosts that display channel messages."""


def runtime_of(client: dict[str, Any]) -> Runtime:
    """Return how a host names our tools to its model, by the name in its handshake."""
    return runtime_for_name(str(client.get("name", "")))


def wants_channel(setting: str, client: dict[str, Any]) -> bool:
    """Return whether a host is offered the channel and pushed to; `setting` is `auto`, `on` or `off`."""
    return setting == "on" or (setting == "auto" and str(client.get("name", "")).lower() in _CHANNEL_HOSTS)
