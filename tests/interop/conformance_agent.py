"""The agent of the conformance workspace: an ordinary polling client of the public API.

A conformance kit steers an agent by the beginning of the ids of its messages; each beginning has a script here. It
runs in the process of a test, or as one of its own: `python -m tests.interop.conformance_agent URL WORKSPACE CLAIMS
OTHERWISE`, with the token in MOLECULE_WORKSPACE_TOKEN. CLAIMS is a file of what it has claimed, which the next process
releases if this one is killed.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock

GREETING = "Hello from TCK"
# A kit subscribes to a task that takes so long (twice its timeout of streams), and looks at others between two steps.
LONG_SECONDS = 5.0
_STEP_SECONDS = 0.15
_POLL_SECONDS = 5
_FILE = {"name": "output.txt", "mimeType": "text/plain"}
_FILE_URL = {"uri": "https://example.com/output.txt", **_FILE}


class ConformanceAgent:
    """An agent that does what the id of a message says. `otherwise`: what it does with any other id."""

    def __init__(
        self, api: ApiClient, workspace_id: str, *, otherwise: str = "ask", claims: Path | None = None
    ) -> None:
        self._claims = claims
        self._claimed: dict[str, int] = {}
        self._api = api
        self._place = f"/workspaces/{workspace_id}"
        self._workspace_id = workspace_id
        self._otherwise = otherwise
        self._clock = SystemClock()
        self._running: set[asyncio.Task[None]] = set()
        self._answers: dict[str, Callable[[dict[str, Any]], Awaitable[None]]] = {
            "tck-complete-task": self._complete,
            "tck-artifact-text": lambda row: self._reply(row, "Generated text content"),
            "tck-artifact-file-url": lambda row: self._reply(row, "", _FILE_URL),
            "tck-artifact-file": self._send_file,
            "tck-artifact-data": lambda row: self._reply(row, "", data=[{"key": "value", "count": 42}]),
            "tck-message-response": lambda row: self._reply(row, "Direct message response"),
            "tck-input-required": self._ask,
            "tck-reject-task": self._decline,
            "tck-stream-artifact-file": self._stream_file,
            "tck-stream": self._stream,
            "test-resubscribe-message-id": self._take_long,
            "complete": self._complete,
        }

    async def run(self) -> None:
        """Work until the task is cancelled. A server that is not there is asked again."""
        try:
            await self._work()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _work(self) -> None:
        await self._release_claims()
        while True:
            try:
                rows = await self._api.claim(self._workspace_id, wait=_POLL_SECONDS, include="instructions")
            except (ApiError, NoAnswerError, OSError):
                await self._pass_time(_STEP_SECONDS)
                continue
            self._save_claims(self._claimed | {row["id"]: row["attempt"] for row in rows})
            for row in rows:
                task = asyncio.create_task(self._handle(row))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _handle(self, row: dict[str, Any]) -> None:
        handle = (row.get("instructions") or {}).get("reply_handle")
        with contextlib.suppress(ApiError, NoAnswerError):  # the lease brings it again
            if handle is not None:
                await self._script_of(row)(row)
            await self._api.ack(self._workspace_id, row)
            self._save_claims({id_: attempt for id_, attempt in self._claimed.items() if id_ != row["id"]})

    def _save_claims(self, claimed: dict[str, int]) -> None:
        self._claimed = claimed
        if self._claims is not None:
            self._claims.write_text(json.dumps(claimed))

    async def _release_claims(self) -> None:
        """Release what an agent had claimed that was killed."""
        if self._claims is None or not self._claims.exists():
            return
        claimed = json.loads(self._claims.read_text() or "{}")
        claims = [{"activity_id": id_, "attempt": attempt} for id_, attempt in claimed.items()]
        if claims:
            await self._api.post(f"{self._place}/activity/release", {"claims": claims})

    def _script_of(self, row: dict[str, Any]) -> Callable[[dict[str, Any]], Awaitable[None]]:
        message = row["request_body"]["params"]["message"]
        found = [name for name in self._answers if str(message.get("messageId", "")).startswith(name)]
        if found:
            return self._answers[max(found, key=len)]
        return self._ask if self._otherwise == "ask" else self._complete

    async def _pass_time(self, seconds: float) -> None:
        await self._clock.wait(asyncio.get_running_loop().create_future(), seconds)

    # -- what it does --------------------------------------------------------------------------------------------------

    async def _reply(self, row: dict[str, Any], text: str, *files: dict[str, Any], **more: Any) -> None:
        body = {"handle": row["instructions"]["reply_handle"], "text": text, "attachments": [*files]}
        await self._api.post(f"{self._place}/reply", {**body, **more})

    async def _complete(self, row: dict[str, Any]) -> None:
        await self._reply(row, GREETING)

    async def _ask(self, row: dict[str, Any]) -> None:
        body = {"question": "Which one?", "options": ["This", "That"], "in_reply_to": row["id"]}
        await self._api.post(f"{self._place}/options", body)

    async def _decline(self, row: dict[str, Any]) -> None:
        await self._api.post(
            f"{self._place}/decline", {"handle": row["instructions"]["reply_handle"], "reason": "rejected"}
        )

    async def _send_file(self, row: dict[str, Any]) -> None:
        uploaded = await self._api.upload(f"{self._place}/chat/uploads", _FILE["name"], b"output", _FILE["mimeType"])
        await self._reply(row, "", {"uri": uploaded["files"][0]["uri"], **_FILE})

    async def _stream(self, row: dict[str, Any]) -> None:
        await self._reply(row, "Under way", progress=True)
        await self._pass_time(_STEP_SECONDS)
        await self._reply(row, "Stream hello from TCK")

    async def _stream_file(self, row: dict[str, Any]) -> None:
        await self._reply(row, "Under way", progress=True)
        await self._pass_time(_STEP_SECONDS)
        await self._send_file(row)

    async def _take_long(self, row: dict[str, Any]) -> None:
        await self._reply(row, "Under way", progress=True)
        await self._pass_time(LONG_SECONDS)
        await self._reply(row, "Done at last")


async def _main(url: str, workspace_id: str, claims: str, otherwise: str) -> None:
    api = ApiClient(url, os.environ["MOLECULE_WORKSPACE_TOKEN"])
    await ConformanceAgent(api, workspace_id, otherwise=otherwise, claims=Path(claims)).run()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
