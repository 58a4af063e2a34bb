"""Settings of a bridge; each is the variable `MOLECULE_BRIDGE_<NAME>`. docs/agents.md lists them."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from molecule_core.agent.config import Seconds, read_settings

_PREFIX = "MOLECULE_BRIDGE_"
Count = Annotated[int, Meta(ge=1)]


class BridgeSettings(Struct, frozen=True, kw_only=True):
    """Settings of a bridge."""

    turn_seconds: Seconds = 900
    """A program that works longer on a message is ended: the turn has failed."""
    end_seconds: Annotated[float, Meta(ge=0.01, le=600)] = 5
    """Time between SIGTERM and SIGKILL."""
    output_bytes: Count = 200_000
    """Length of the final text; further output is dropped. A message may have 256 KiB."""
    error_bytes: Count = 4096
    """Longest line of standard error that is logged."""
    runs: Annotated[int, Meta(ge=1, le=100)] = 3
    """Interrupted turns before a message counts as failed: something in it may be what kills the bridge."""
    parallel: Annotated[int, Meta(ge=1, le=64)] = 1
    """Turns that run in parallel; with one, messages are handled in order."""
    outbox_messages: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Unreported outcomes beyond which no further message is started."""


def read_bridge_settings(environ: Mapping[str, str]) -> BridgeSettings:
    """Read the settings from the environment. Raises ConfigurationError."""
    return read_settings(environ, _PREFIX, BridgeSettings)
