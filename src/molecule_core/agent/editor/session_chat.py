"""What a session shows of the chat of its workspace, read from the server: nothing is lost or shown twice.

The chat is shared by all people of the organisation. A session shows its own messages and their answers, and what the
agent writes without being asked; not the messages of others and their answers.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from molecule_core.agent.editor.account import PersonAccount

Row = dict[str, Any]
_PAGE = 100
_CLOSED = ("answered", "declined")
# Messages after the oldest open prompt that are read again and again: beyond this it is given up.
_MAX_OPEN_ROWS = 500
_MAX_REPLAYED_PAGES = 20


class ShownMessage(Struct, frozen=True):
    """A new message of the agent. `answers`: the client's id of the own message that it answers; empty if none."""

    row: Row
    answers: str


class ChatNews(Struct, frozen=True):
    """What is new in a chat. `own`: the open own messages by the client's id, as they are now. `chosen`: questions that
    were answered by a choice, with the client's id of the choice."""

    messages: list[ShownMessage]
    own: dict[str, Row]
    chosen: dict[str, str]


class SessionChat:
    """The chat of one session. `prefix`: of the ids of its own messages; without one, all messages are its own."""

    def __init__(self, account: PersonAccount, workspace_id: str, prefix: str, after: str) -> None:
        self.workspace_id = workspace_id
        self._account = account
        self._prefix = prefix
        self._read_from = after
        self._open: dict[str, None] = {}
        self._shown: set[str] = set()
        self._lock = asyncio.Lock()
        self.newest_seq = 0

    @property
    def _path(self) -> str:
        return f"/workspaces/{self.workspace_id}/chat-history"

    async def find_end(self) -> str:
        """Return the id of the last message; empty if there is none. Raises EditorError."""
        page = await self._account.request("GET", self._path, query={"limit": 1})
        rows = page["messages"]
        return str(rows[-1]["id"]) if rows else ""

    def expect(self, client_id: str) -> None:
        """Wait for the answer to an own message that is going to be sent."""
        self._open[client_id] = None

    def close(self, client_id: str) -> None:
        """Stop waiting for the answer to an own message."""
        self._open.pop(client_id, None)

    async def read(self) -> ChatNews:
        """Return what is new. Raises EditorError."""
        async with self._lock:
            rows = await self._rows_after(self._read_from)
            foreign = await self._foreign_answers([row for row in rows if row["id"] not in self._shown])
            news = self._sort(rows, foreign)
            self._advance(rows)
            return news

    async def replay(self) -> list[Row]:
        """Return the messages of the session so far, and continue after them. Raises EditorError."""
        async with self._lock:
            rows = await (self._rows_after(self._read_from, _MAX_REPLAYED_PAGES) if self._prefix else self._last_rows())
            answered, foreign = _answers(rows), await self._foreign_answers(rows)
            own = [row for row in rows if row["id"] not in foreign and self._is_own(row, answered)]
            for row in own:
                if row["role"] == "user" and row.get("client_id") and _is_open(row):
                    self._open[row["client_id"]] = None
            self._shown.update(row["id"] for row in rows)
            self._advance(rows)
            return own

    async def _last_rows(self) -> list[Row]:
        page = await self._account.request("GET", self._path, query={"limit": _PAGE})
        return list(page["messages"])

    async def _rows_after(self, after: str, most_pages: int = 10) -> list[Row]:
        found: list[Row] = []
        for _ in range(most_pages):
            query = {"limit": _PAGE, "after": after or None}
            page = await self._account.request("GET", self._path, query=query)
            found += page["messages"]
            if page["reached_end"] or not page["messages"] or not after:
                break
            after = page["messages"][-1]["id"]
        return found

    async def _foreign_answers(self, rows: Sequence[Row]) -> set[str]:
        """Return the answers to messages before these rows: those are not of this session."""
        answered = _answers(rows)
        if not self._prefix or all(row["role"] == "user" or row["id"] in answered for row in rows):
            return set()
        path, query = f"/workspaces/{self.workspace_id}/obligations", {"state": "answered", "limit": _PAGE}
        page = await self._account.request("GET", path, query=query)
        return {each["answer_id"] for each in page["obligations"] if each["answer_id"]} - answered.keys()

    def _sort(self, rows: Sequence[Row], foreign: set[str]) -> ChatNews:
        answered = _answers(rows)
        messages = [
            ShownMessage(row, str((answered.get(row["id"]) or {}).get("client_id") or ""))
            for row in rows
            if row["role"] == "agent" and row["id"] not in self._shown | foreign and self._is_own(row, answered)
        ]
        self._shown.update(row["id"] for row in rows if row["role"] == "agent")
        own = {row["client_id"]: row for row in rows if row.get("client_id") in self._open}
        chosen = {str(row["option_of"]): str(row.get("client_id") or "") for row in rows if row.get("option_of")}
        return ChatNews(messages, own, chosen)

    def _is_own(self, row: Row, answered: dict[str, Row]) -> bool:
        asked = row if row["role"] == "user" else answered.get(row["id"])
        return not self._prefix or asked is None or str(asked.get("client_id") or "").startswith(self._prefix)

    def _advance(self, rows: Sequence[Row]) -> None:
        """Read from the end the next time, unless an own message before it has no answer."""
        if rows:
            self.newest_seq = max(self.newest_seq, int(rows[-1]["seq"]))
        if len(rows) > _MAX_OPEN_ROWS and self._open:
            self._open.pop(next(iter(self._open)))
        if not self._open and rows:
            self._read_from = str(rows[-1]["id"])
            self._shown.clear()


def _answers(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the answered messages by the ids of their answers."""
    found = ((row, (row.get("obligation") or {}).get("answer_id")) for row in rows)
    return {answer_id: row for row, answer_id in found if answer_id}


def _is_open(row: Row) -> bool:
    return (row.get("obligation") or {}).get("state") not in _CLOSED and row.get("delivery") != "dead"
