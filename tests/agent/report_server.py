"""A server in memory that takes reports of live turns, and sends what the test wants of them."""

import asyncio
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint

from molecule_core.client.api import ApiClient


class ReportServer(ApiClient):
    """Notes each report, and answers as the test says. Also the workspace whose turns are reported."""

    id = "ops"

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.answers: list[Exception] = []
        self._stops: asyncio.Queue[str] = asyncio.Queue()

    def api(self) -> ApiClient:
        return self

    def stop(self, activity_id: str) -> None:
        """A person wants a turn to stop."""
        self._stops.put_nowait(activity_id)

    async def post(self, path: str, body: Any = None, **query: Any) -> Any:
        await checkpoint()
        assert path == "/workspaces/ops/live"
        self.bodies.append(msgspec.json.decode(msgspec.json.encode(body)))
        if self.answers:
            raise self.answers.pop(0)
        return {"controls": [{"type": "unknown"}, {"type": "stop", "activity_id": "other"}]}

    async def get(self, path: str, **query: Any) -> Any:
        assert path == "/workspaces/ops/live/controls"
        return {"controls": [{"type": "stop", "activity_id": await self._stops.get()}]}

    @property
    def reports(self) -> list[dict[str, Any]]:
        """All reports, in order."""
        return [each for body in self.bodies for each in body["events"]]

    @property
    def text(self) -> str:
        """The text of all reports."""
        return "".join(each["text"] for each in self.reports if each["type"] == "text")
