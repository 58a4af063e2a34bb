"""Settings of a bridge; each is the variable `MOLECULE_BRIDGE_<NAME>`. docs/reference/configuration.md lists them."""

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
    """Length of the final text; what is longer is cut, with a line that says so. A message may have 256 KiB."""
    error_bytes: Count = 4096
    """Longest line of standard error that is logged."""
    line_bytes: Count = 64 << 20
    """Longest line that a program with sessions may write; a longer one ends the program."""
    runs: Annotated[int, Meta(ge=1, le=100)] = 3
    """Interrupted turns before a message counts as failed: something in it may be what kills the bridge."""
    parallel: Annotated[int, Meta(ge=1, le=64)] = 1
    """Turns that run in parallel; with one, messages are handled in order."""
    sessions: Annotated[int, Meta(ge=1, le=64)] = 4
    """Conversations of a session bridge that are worked on in parallel. Further ones wait, and the program of a
    conversation at rest is ended for them."""
    idle_seconds: Seconds = 1800
    """The program of a conversation without messages is ended after this time; the next message resumes its session."""
    start_seconds: Seconds = 60
    """Time that a session's program has to answer after its start, and to open a session."""
    stop_seconds: Seconds = 5
    """A program that a person stopped and that works on for this time is ended; its session is resumed later."""
    limit_seconds: Seconds = 300
    """Wait after a vendor's limit that does not say when it ends."""
    retry_limit_seconds: Seconds = 5
    """A program that repeats a request by itself after a vendor's limit: if it waits this long or longer, the workspace
    is limited meanwhile."""
    permission_bytes: Annotated[int, Meta(ge=100, le=1 << 20)] = 60_000
    """Input of a tool that an approval shows whole; of a longer one the beginning is shown, and it cannot be edited.
    The server accepts 64 KiB by default."""
    outbox_messages: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Unreported outcomes beyond which no further message is started."""


def read_bridge_settings(environ: Mapping[str, str]) -> BridgeSettings:
    """Read the settings from the environment. Raises ConfigurationError."""
    return read_settings(environ, _PREFIX, BridgeSettings)
