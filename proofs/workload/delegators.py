"""Agents that give tasks, each by another entrance, and read what becomes of them in their inboxes.

Each call is repeated under its own key until it has a 2xx, and now and then afterwards. Above: the proofs that disturb
the server. Below: doers, the people's way of asking (company.py), the model (ends.py).
"""

import asyncio
import time
from typing import Any

from proofs.harness.caller import Caller, Refused
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import Setting
from proofs.workload.company import LEASE_SECONDS, WAIT_SECONDS, Company, Seat
from proofs.workload.delegation_model import RESULT, Work, Works
from proofs.workload.observations import Book
from proofs.workload.workers import POLLING, Doers, Way, straight

WAYS = ("http, waiting", "http", "message/send", "mcp")
_PATIENCE_SECONDS = 2
_MOST_OPEN = 6
_REPEATS = 0.15
# One of the givers gives some of its tasks to an agent that never comes.
_PLAIN, _IN_VAIN, _DEADLINE_SECONDS = 1, 0.2, 3
_ROWS = 8
_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"


class Givers:
    """One giver for each entrance, and the doers that they give to."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book, way: Way = straight) -> None:
        """`way` is the one by which the server finds doers that are pushed to."""
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self.works = Works(book)
        self.doers = Doers(server, company, self.works, way)
        self._seats: list[Seat] = []
        self._giving: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes the seats."""
        await self.doers.found()
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Giver {n}"})) for n in range(len(WAYS))]

    def begin(self) -> None:
        """Everybody goes to work."""
        self.doers.begin()
        self._giving = [asyncio.create_task(self._give(n)) for n in range(len(WAYS))]
        self._reading = [asyncio.create_task(self._read(n)) for n in range(len(WAYS))]

    async def kill_doer(self, throw: int) -> None:
        """One of those that poll dies, and another takes its seat."""
        await self.doers.kill_one(throw % len(self.doers.tasks))

    async def finish(self, seconds: float) -> None:
        """Givers end their last call (the book says `stopping`); then all that was given comes to its end."""
        await self._company.end(self._giving, seconds)
        while any(self.works.open_of(giver) for giver in range(len(WAYS))):
            if not await self._book.progress.after("had", 1, seconds=seconds):
                break
        for task in (*self._reading, *self.doers.tasks):
            task.cancel()
        await self._company.end([*self._reading, *self.doers.tasks], seconds)

    def figures(self) -> dict[str, int | float | str]:
        """How much of it there was."""
        given, pushed = self.works.accepted.values(), self.doers.targets[POLLING:]
        return {
            "delegations": len(given),
            "pushed": sum(work.target in pushed for work in given),
            "taken by who waited": len(self.works.taken),
            "past their deadline": sum(work.target == self.works.absent for work in given),
            "given again": self._book.figures["given again"],
        }

    # -- giving --------------------------------------------------------------------------------------------------------

    async def _give(self, place: int) -> None:
        dice, mine, number = self._setting.dice("giver", place), list[Work](), 0
        stopping = self._book.stopping
        async with Caller(self._server.port, self._seats[place].token) as api:
            while not stopping.is_set():
                if len(self.works.open_of(place)) >= _MOST_OPEN:
                    await self._book.progress.after("had", 1, seconds=1.0)
                    continue
                key = f"g{place}-{number}"
                number += 1
                work = Work(key=key, giver=place, target=dice.choice(self.doers.targets), task=f"{key} do it")
                if place == _PLAIN and dice.random() < _IN_VAIN:
                    work.target, work.deadline_seconds = self.works.absent, _DEADLINE_SECONDS
                self.works.all[key] = work
                await self._put(api, work)
                if work.deadline_seconds is None:  # one that has failed frees its key, and would begin anew
                    mine.append(work)
                if mine and dice.random() < _REPEATS:
                    self._book.figures["given again"] += 1
                    await self._put(api, dice.choice(mine))

    async def _put(self, api: Caller, work: Work) -> None:
        ask = (self._waiting, self._plain, self._message, self._tool)[work.giver]
        try:
            told = await self._company.insist(lambda: ask(api, work))
        except Refused as error:
            self._company.refused(error, f"give {work.key}")
            return
        id_, text, is_here = told
        self.works.accept(work, id_)
        if text:
            self.works.tell(id_, text, here=is_here)

    async def _waiting(self, api: Caller, work: Work) -> tuple[str, str, bool]:
        return await self._http(api, work, wait=_PATIENCE_SECONDS)

    async def _plain(self, api: Caller, work: Work) -> tuple[str, str, bool]:
        more = {} if work.deadline_seconds is None else {"deadline_seconds": work.deadline_seconds}
        return await self._http(api, work, **more)

    async def _http(self, api: Caller, work: Work, **more: Any) -> tuple[str, str, bool]:
        body = {"target_id": work.target, "task": work.task, **more}
        told = await api.post(f"/workspaces/{self._seats[work.giver].id}/delegate", body, idempotency_key=work.key)
        return told["delegation_id"], told.get("result", ""), told.get("delivered") == "here"

    async def _message(self, api: Caller, work: Work) -> tuple[str, str, bool]:
        message = {
            "role": "user",
            "messageId": work.key,
            "parts": [{"kind": "text", "text": work.task}],
            "metadata": {"delegation": True},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        path = f"/workspaces/{work.target}/a2a"
        task = (await api.post(path, body, x_timeout=str(_PATIENCE_SECONDS)))["result"]
        parts = [part for each in task.get("artifacts", []) for part in each["parts"]]
        text = parts[0]["text"] if parts else ""
        return task["id"], text, task["metadata"].get("delivered") == "here"

    async def _tool(self, api: Caller, work: Work) -> tuple[str, str, bool]:
        given = {"workspace_id": work.target, "task": work.task, "wait": _PATIENCE_SECONDS}
        about = {
            f"{_META}protocolVersion": _VERSION,
            f"{_META}clientCapabilities": {},
            "claudecode/toolUseId": work.key,
        }
        params = {"name": "delegate_task", "arguments": given, "_meta": about}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"mcp_protocol_version": _VERSION, "mcp_method": "tools/call", "mcp_name": "delegate_task"}
        answer = await api.post(f"/workspaces/{self._seats[work.giver].id}/mcp", body, **headers)
        result = answer.get("result", {})
        if "error" in answer or result.get("isError"):
            raise Refused(400, answer)
        told = result["structuredContent"]
        return told["task_id"], told.get("result", ""), told.get("delivered") == "here"

    # -- what becomes of it --------------------------------------------------------------------------------------------

    async def _read(self, place: int) -> None:
        """Claims the results of its tasks, and acknowledges each."""
        seat, works = self._seats[place], self.works
        path = f"/workspaces/{seat.id}/activity"
        claim = {"claim": LEASE_SECONDS, "wait": WAIT_SECONDS, "limit": _ROWS}
        async with Caller(self._server.port, seat.token) as api:
            while True:
                asked, begun = works.hands.tick(), time.monotonic()
                try:
                    rows = await self._company.insist(lambda: api.get(path, **claim))
                except Refused as error:
                    self._company.refused(error, "claim of results")
                    continue
                strange = [row for row in rows if row["method"] != RESULT]
                for row in strange:
                    self._book.fault("refused", f"no result: {row}")
                works.hand([row for row in rows if row["method"] == RESULT], asked, begun + LEASE_SECONDS)
                for row in rows:
                    await self._keep(api, seat, row)

    async def _keep(self, api: Caller, seat: Seat, row: dict[str, Any]) -> None:
        handled = {"activity_id": row["id"], "attempt": row["attempt"]}
        try:
            await self._company.insist(lambda: api.post(f"/workspaces/{seat.id}/activity/ack", handled))
        except Refused as error:
            if error.code == "stale_attempt":  # handed out again meanwhile: that attempt will be acknowledged
                self._book.figures["late acks refused"] += 1
            else:
                self._company.refused(error, f"keep {row['id']}")
        else:
            self.works.keep(row)
