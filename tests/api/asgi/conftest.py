"""Servers that are reached through ASGI instead of a listener of their own."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from testing.clocks import SeededRandomness
from testing.engines import Engine
from testing.running_server import ADMIN_TOKEN, UNHURRIED
from tests.api.asgi.scenario import BODY_LIMIT, SENDS_PER_MINUTE

LIMITS = msgspec.structs.replace(UNHURRIED, body_bytes=BODY_LIMIT, sends_per_minute=SENDS_PER_MINUTE)


@pytest.fixture
def new_server(tmp_path: Path) -> Callable[[Engine, str], Server]:
    """Make a server on an engine that is not open yet."""

    def new(engine: Engine, place: str) -> Server:
        settings = Settings(
            state_dir=str(tmp_path),
            database=place if engine == "postgres" else "",
            limits=LIMITS,
            push_instructions_enabled=True,
        )
        return Server(settings, admin_token=ADMIN_TOKEN, randomness=SeededRandomness(0))

    return new


@pytest.fixture
def sqlite_server(new_server: Callable[[Engine, str], Server]) -> Server:
    """A server on SQLite that is not open yet."""
    return new_server("sqlite", "")
