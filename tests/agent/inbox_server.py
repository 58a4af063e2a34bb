"""A server as a reader of inboxes sees it, in memory: claims with leases and attempts, acks, releases. It can be away,
refuse, and be cut off in the middle of a request, before or after it has done what was asked."""

import asyncio
from typing import Any

from molecule_core.agent.client.connections import ServerConnections
from molecule_core.agent.client.tokens import TokenRegistry
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from testing.clocks import FakeClock


class Row:
    """A message in an inbox."""

    def __init__(self, id_: str, seq: int) -> None:
        self.id, self.seq = id_, seq
        self.attempt = 0
        self.lease_until = 0.0
        self.acked = False
        self.reminder = False

    @property
    def handle(self) -> str:
        """What names it in an answer; servers may well use the same one for messages of theirs."""
        return f"m{self.seq}-abcde"


class StandIn:
    """The server of one workspace."""

    def __init__(self, clock: FakeClock, workspace_id: str) -> None:
        self.clock = clock
        self.workspace_id = workspace_id
        self.rows: list[Row] = []
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.refuses: dict[str, Exception] = {}
        self.dies: tuple[int, bool] | None = None
        self.died = asyncio.Event()
        self.tokens: list[str] = []
        self.news = asyncio.Event()
        self.slow: asyncio.Event | None = None
        """It answers nothing before this is set."""
        self.strange: list[Any] = []
        """What it answers instead, to the next questions for mail."""
        self.hello: Any = {"status": "ok"}
        """What it answers to whoever registers or beats."""

    def put(self, id_: str) -> None:
        """Somebody sends a message."""
        self.rows.append(Row(id_, len(self.rows) + 1))
        self.news.set()

    def remind(self, id_: str) -> None:
        """Nobody has answered a message: it is handed out once more, held or handled."""
        (row,) = [each for each in self.rows if each.id == id_]
        row.acked, row.lease_until, row.reminder = False, 0.0, True
        self.news.set()

    @property
    def open_ids(self) -> list[str]:
        """What nobody has handled."""
        return [row.id for row in self.rows if not row.acked]

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(each.endswith(path) for _, each in self.asked)

    async def serve(self, token: str, method: str, path: str, body: Any, query: dict[str, Any]) -> Any:
        """One request."""
        self.asked.append((method, path))
        self.bodies.append(body)
        self.tokens.append(token)
        if self.slow is not None:
            await self.slow.wait()
        for part, error in self.refuses.items():
            if part in path:
                raise error
        dies = self.dies if self.dies is not None and self.dies[0] == len(self.asked) else None
        if dies is not None and not dies[1]:
            await self._hang()
        answer = await self._answer(path, body, query)
        if dies is not None:
            await self._hang()
        return answer

    async def _hang(self) -> None:
        """The one who asked will never know."""
        self.died.set()
        await asyncio.get_running_loop().create_future()

    async def _answer(self, path: str, body: Any, query: dict[str, Any]) -> Any:
        verb = path.rsplit("/", 1)[1]
        if verb in ("reply", "decline"):
            return self._closed(verb, body)
        match verb:
            case "activity":
                return await self._rows(query)
            case "ack":
                return {"last_acked_seq": self._ack(body)}
            case "release":
                for claim in body["claims"]:
                    for row in self.rows:
                        if (row.id, row.attempt) == (claim["activity_id"], claim["attempt"]):
                            row.lease_until = 0.0
                return {"released": 0}
        return self.hello

    async def _rows(self, query: dict[str, Any]) -> Any:
        if "claim" in query:
            return self.strange.pop() if self.strange else await self._claimed(query)
        if query["since_id"] not in [row.id for row in self.rows]:
            raise ApiError(410, {"error": "since_id cursor not found", "code": "cursor_gone"})
        return []

    async def _claimed(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        end = self.clock.monotonic() + query["wait"]
        while True:
            self.news.clear()
            now = self.clock.monotonic()
            free = [row for row in self.rows if not row.acked and row.lease_until <= now][: query["limit"]]
            if free or now >= end:
                break
            held = [row.lease_until - now for row in self.rows if not row.acked]
            await self.clock.wait(self.news.wait(), min([end - now, *held]))
        for row in free:
            row.attempt += 1
            row.lease_until = self.clock.monotonic() + query["claim"]
        return [self._shown(row) for row in free]

    def _shown(self, row: Row) -> dict[str, Any]:
        shown = {"id": row.id, "seq": row.seq, "workspace_id": "what the server says", "attempt": row.attempt}
        parts = [{"kind": "text", "text": row.id}]
        how = instructions(row.handle)
        shown |= {"reminder": True} if row.reminder else {}
        body = {"params": {"message": {"parts": parts}}}
        return {**shown, "kind": "canvas_user", "request_body": body, "instructions": how}

    def _closed(self, verb: str, body: Any) -> dict[str, Any]:
        found = [each for each in self.rows if each.handle == body["handle"]]
        if not found:
            raise ApiError(404, {"error": "unknown handle", "code": "not_found"})
        (row,) = found
        closes = not body.get("progress")
        row.acked = row.acked or closes
        state = {"reply": "answered", "decline": "declined"}[verb] if closes else "open"
        told = {"status": "sent", "activity_id": f"answer-to-{row.id}", "answers": row.id, "peer_id": ""}
        return {**told, "state": state, "acknowledged": closes}

    def _ack(self, body: Any) -> int:
        (row,) = [each for each in self.rows if each.id == body["activity_id"]]
        if not row.acked and body.get("attempt", 0) < row.attempt:
            raise ApiError(409, {"error": "stale", "code": "stale_attempt"})
        row.acked = True
        return next((each.seq - 1 for each in self.rows if not each.acked), len(self.rows))


def instructions(handle: str) -> dict[str, Any]:
    """How to answer, as a server says it with a row."""
    said = {"reply_via": "reply", "reply_args": {"peer_id": ""}, "stdout_warning": "", "docs_url": "", "form": "full"}
    told = {"available_tools": ["reply"], "template": "generic-mcp-default@1", "text": f'reply(handle="{handle}")'}
    return {**said, **told, "tokens": 9, "reply_handle": handle}


class StandInApi(ApiClient):
    """A client that never leaves the process."""

    def __init__(self, server: StandIn | None, token: str) -> None:
        self._server = server
        self._token = token

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        if self._server is None:
            raise NoAnswerError("away")
        return await self._server.serve(self._token, method, path, body, query or {})


class StandIns(ServerConnections):
    """Clients of stand-ins, by workspace; a workspace without one has a server that is away."""

    def __init__(self, tokens: TokenRegistry, servers: dict[str, StandIn]) -> None:
        super().__init__(tokens)
        self._tokens_of = tokens
        self._stand_ins = servers

    def api(self, workspace_id: str, url: str) -> ApiClient:
        return StandInApi(self._stand_ins.get(workspace_id), self._tokens_of.token(workspace_id))
