"""The command `molecule bridge command` as a process of its own, for seats of a running server."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from testing.processes import MOLECULE, Process, started
from testing.running_server import Running, Seat


def settings(server: Running, seat: Seat, state: Path, **more: str) -> dict[str, str]:
    """The environment of a bridge: its seat by a token file, quick to notice things."""
    token = state / "token"
    token.write_text(seat.token)
    token.chmod(0o600)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOLECULE_", "ADMIN_"))}
    own = {
        "WORKSPACE_ID": seat.id,
        "MOLECULE_WORKSPACE_TOKEN_FILE": str(token),
        "PLATFORM_URL": server.url,
        "CONFIGS_DIR": str(state),
        "MOLECULE_MCP_LEASE_SECONDS": "5",
        "MOLECULE_BRIDGE_END_SECONDS": "1",
    }
    return {**kept, **own, **more}


@contextlib.asynccontextmanager
async def bridging(
    server: Running, seat: Seat, state: Path, program: str, *flags: str, **more: str
) -> AsyncIterator[Process]:
    """A bridge to a Python program."""
    command = (MOLECULE, "bridge", "command", *flags, "--", sys.executable, "-c", program)
    async with started(*command, env=settings(server, seat, state, **more), cwd=state) as process:
        yield process


async def failures(seat: Seat) -> list[dict[str, Any]]:
    """What an agent's own log says of turns that failed, oldest first."""
    rows: list[dict[str, Any]] = await seat.api.get(f"/workspaces/{seat.id}/activity", type="error", limit=100)
    return [{**row["request_body"], "detail": row["error_detail"]} for row in reversed(rows)]


async def waiting(seat: Seat) -> int:
    """How many messages nobody has handled."""
    return len(await seat.api.get(f"/workspaces/{seat.id}/activity", waiting="true", limit=100))


async def drafts(seat: Seat) -> dict[str, tuple[str, str]]:
    """What became of each message that wanted an answer: its state and its draft, by activity id."""
    page = await seat.api.get(f"/workspaces/{seat.id}/obligations", limit=100, state="all")
    return {each["activity_id"]: (each["state"], each.get("draft") or "") for each in page["obligations"]}
