"""Delegations with checks, played by hand: one workspace delegates, another one claims and answers."""

import asyncio
from typing import Any

from testing.delegation_steps import row_of
from testing.message_world import MessageWorld, handle
from testing.raw_http import Reply, ask
from testing.running_server import Seat
from testing.upload_forms import uploaded
from testing.waits import PROCESS_START_SECONDS, eventually

REPORT: list[dict[str, Any]] = [{"type": "file", "name": "report.json", "media_type": "application/json"}]
FITS: dict[str, Any] = {
    "type": "schema",
    "file": "report.json",
    "schema": {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}},
}
GOOD = b'{"total": 3}'
_BEFORE_TIME_PASSES_SECONDS = 10.0


class Job:
    """One delegated task with checks."""

    def __init__(self, world: MessageWorld, lead: Seat, ops: Seat, other: Seat) -> None:
        self.world = world
        self.lead = lead
        self.ops = ops
        self.other = other
        self.id = ""
        self.task = ""

    async def begin(self, accept: list[dict[str, Any]], rounds: int = 0, **more: Any) -> None:
        """The lead delegates the task."""
        body = {"target_id": self.ops.id, "task": self.task, "accept": accept, "rounds": rounds, **more}
        begun = await self.lead.api.post(f"/workspaces/{self.lead.id}/delegate", body)
        self.id = begun["delegation_id"]

    async def claim(self) -> dict[str, Any]:
        """The message of this task that waits for an answer."""
        rows = [row for row in await self.world.take(self.ops) if row["kind"] == "delegation"]
        (found,) = [row for row in rows if self.delegation_of(row) == self.id]
        return found

    def delegation_of(self, row: dict[str, Any]) -> str:
        """The delegation that a message is about."""
        return str(row["request_body"]["params"]["message"]["metadata"]["delegation_id"])

    async def upload(self, name: str, content: bytes, mime_type: str = "text/plain", by: Seat | None = None) -> Any:
        """A file that a workspace uploads to its own log."""
        seat = by or self.ops
        (file,) = await uploaded(self.world.server, seat.id, seat.token, (name, content, mime_type))
        return file

    async def reply(
        self, row: dict[str, Any], text: str, *files: Any, data: Any = None, by: Seat | None = None
    ) -> Reply:
        """An answer by handle, with files and data."""
        seat, parts = by or self.ops, [{"kind": "text", "text": text}] if text else []
        parts += [{"kind": "file", "file": each} for each in files]
        if data is not None:
            parts.append({"kind": "data", "data": data})
        message = {"role": "agent", "parts": parts, "metadata": {"reply_handle": handle(row)}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        return await ask(self.world.server.port, "POST", f"/workspaces/{self.lead.id}/a2a", body, token=seat.token)

    async def answer(self, text: str, *files: Any, data: Any = None, row: dict[str, Any] | None = None) -> None:
        """Claims what waits, answers it, and waits until the answer is checked. `row`: what was claimed before."""
        row = row or await self.claim()
        reply = await self.reply(row, text, *files, data=data)
        assert reply.status == 200, reply
        await self.ops.api.ack(self.ops.id, row)
        await self.checked()

    async def submit(self, text: str, *files: Any, row: dict[str, Any] | None = None) -> None:
        """Answers what waits, and waits until the answer needs only its reviews or commands."""
        reply = await self.reply(row or await self.claim(), text, *files)
        assert reply.status == 200, reply

        async def look() -> dict[str, Any]:
            await self.world.clock.advance(0)
            return (await self.detail())["acceptance"] or {}

        await eventually(look, lambda acceptance: acceptance["reviews"])

    async def checked(self) -> None:
        """Waits until no answer is being checked. Time passes where that takes long: a machine that could not start a
        process tries again after a while."""
        end = asyncio.get_running_loop().time() + _BEFORE_TIME_PASSES_SECONDS

        async def look() -> str:
            await self.world.clock.advance(1 if asyncio.get_running_loop().time() > end else 0)
            return (await row_of(self.world, self.id)).phase

        await eventually(look, lambda phase: phase != "checking", PROCESS_START_SECONDS)

    async def detail(self) -> dict[str, Any]:
        """The delegation as its delegator reads it."""
        found: dict[str, Any] = await self.lead.api.get(f"/delegations/{self.id}")
        return found

    async def outcome(self) -> str:
        """How the delegation is: its status and reason, and whether it is verified."""
        item = (await self.detail())["delegation"]
        return " ".join(filter(None, (item["status"], item["reason"], "verified" if item["verified"] else "")))


async def new_job(world: MessageWorld, task: str = "count the mail", **more: Any) -> Job:
    """A job of three workspaces that may message each other."""
    lead = await world.server.seat("Lead", **more)
    ops = await world.server.seat("Ops", parent_id=lead.id, **more)
    other = await world.server.seat("Other", parent_id=lead.id, **more)
    job = Job(world, lead, ops, other)
    job.task = task
    return job


def review_by(seat: Seat, instructions: str = "") -> dict[str, Any]:
    """A check that this workspace reviews the answer."""
    return {"type": "review", "reviewer_id": seat.id, "instructions": instructions}


async def pending_review(job: Job, by: Seat | None = None) -> dict[str, Any]:
    """The review of this workspace that the answer waits for."""
    seat = by or job.other
    reviews = (await job.detail())["acceptance"]["reviews"]
    (found,) = [each for each in reviews if each["reviewer_id"] == seat.id]
    return dict(found)


async def decide_review(job: Job, decision: str, note: str = "", by: Seat | None = None, **more: Any) -> None:
    """The reviewer decides what it was shown."""
    seat = by or job.other
    review = await pending_review(job, seat)
    path = f"/workspaces/{seat.id}/approvals/{review['approval_id']}"
    shown = await seat.api.get(path)
    body = {"decision": decision, "note": note, "revision": shown["revision"], **more}
    await seat.api.post(f"{path}/decide", body)
