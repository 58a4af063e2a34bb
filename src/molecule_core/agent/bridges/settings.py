"""What a bridge may be set to: `MOLECULE_BRIDGE_<NAME>` each; docs/agents.md lists them. Above: the rest of it."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from molecule_core.agent.config import Seconds, read_settings

_PREFIX = "MOLECULE_BRIDGE_"
Count = Annotated[int, Meta(ge=1)]


class BridgeSettings(Struct, frozen=True, kw_only=True):
    """The settings of a bridge."""

    turn_seconds: Seconds = 900
    """A program that works longer on a message is ended: the turn has failed."""
    end_seconds: Annotated[float, Meta(ge=0.01, le=600)] = 5
    """From the polite signal to the other one."""
    output_bytes: Count = 200_000
    """Of what a program says, so much is its final text; the rest is left out. A message may have 256 KiB."""
    error_bytes: Count = 4096
    """The longest line of standard error that is told."""
    runs: Annotated[int, Meta(ge=1, le=100)] = 3
    """Turns of one message that were interrupted, then it is given up: something in it may be what kills the bridge."""
    parallel: Annotated[int, Meta(ge=1, le=64)] = 1
    """Turns that run side by side; with one, messages are worked on in their order."""
    outbox_messages: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Outcomes that wait for the server, then no further message is worked on."""


def read_bridge_settings(environ: Mapping[str, str]) -> BridgeSettings:
    """What the environment says. Raises BadConfiguration."""
    return read_settings(environ, _PREFIX, BridgeSettings)
