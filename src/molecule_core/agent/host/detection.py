"""What is known of the programs that host agents, by the name that they give themselves in the handshake. Pure.

Above: host, engine, main. Below: the names of tools.
"""

from typing import Any

from molecule_core.tools.spec import Runtime, runtime_for_name

CHANNEL_CAPABILITY = "claude/channel"
_CHANNEL_HOSTS = ("claude-code",)
"""Hosts that show what a channel pushes."""


def runtime_of(client: dict[str, Any]) -> Runtime:
    """How a host names our tools to its model, by the name that it gives itself."""
    return runtime_for_name(str(client.get("name", "")))


def wants_channel(setting: str, client: dict[str, Any]) -> bool:
    """Whether a host is offered the channel and pushed to; the wish is `auto`, `on` or `off`."""
    return setting == "on" or (setting == "auto" and str(client.get("name", "")).lower() in _CHANNEL_HOSTS)
