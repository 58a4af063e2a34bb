"""Settings of a runner; each is the variable `MOLECULE_RUNNER_<NAME>`. docs/reference/configuration.md lists them."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from molecule_core.agent.config import Seconds, read_settings

_PREFIX = "MOLECULE_RUNNER_"
TOKEN_VARIABLE = "MOLECULE_RUNNER_TOKEN"
"""Variable with the token of a runner."""


class RunnerSettings(Struct, frozen=True, kw_only=True):
    """Settings of a runner."""

    restart_seconds: Seconds = 1
    """Delay before an agent that has ended is started again; it doubles each time, with jitter."""
    restart_most_seconds: Seconds = 60
    """Longest such delay."""
    stable_seconds: Seconds = 60
    """An agent that ran this long is started again after the first delay."""
    end_seconds: Annotated[float, Meta(ge=0.01, le=600)] = 10
    """Time between SIGTERM and SIGKILL of an agent."""
    log_bytes: Annotated[int, Meta(ge=100, le=16 << 20)] = 64 << 10
    """Output that is kept of each agent, the end of it."""
    hold_seconds: Annotated[int, Meta(ge=1, le=25)] = 25
    """How long the server holds a poll for requests."""
    retry_seconds: Seconds = 1
    """Delay before a failed request to the server is repeated; it doubles each time, with jitter."""
    retry_most_seconds: Seconds = 30
    """Longest such delay."""
    scan_seconds: Seconds = 60
    """How often the runner looks for installed agents and their versions."""


def read_runner_settings(environ: Mapping[str, str]) -> RunnerSettings:
    """Read the settings from the environment. Raises ConfigurationError."""
    others = {name: value for name, value in environ.items() if name != TOKEN_VARIABLE}
    return read_settings(others, _PREFIX, RunnerSettings)
