"""Asks the person in the editor about approvals that wait for a person, while a prompt runs.

A decision is written by the route that the page uses. One that is made elsewhere withdraws the question.
"""

import asyncio
import logging
from typing import Any

import msgspec

from molecule_core.agent.editor.account import PersonAccount
from molecule_core.agent.editor.connection import EditorConnection, EditorError
from molecule_core.agent.editor.updates import call_content, tool_call, tool_call_update
from molecule_core.common.text import single_line

_log = logging.getLogger("molecule.agent")
Item = dict[str, Any]
_APPROVE, _DENY = "approve", "deny"
_OPTIONS = [
    {"optionId": _APPROVE, "name": "Approve this request once", "kind": "allow_once"},
    {"optionId": _DENY, "name": "Deny", "kind": "reject_once"},
]
_PENDING = "pending"
_PAGE = 100
_MAX_TITLE = 200
_OUTCOMES = {"approved": "Approved", "denied": "Denied", "expired": "Expired", "withdrawn": "Withdrawn"}


class ApprovalQuestions:
    """The open questions of a session about approvals of its workspace and those below it."""

    def __init__(self, account: PersonAccount, connection: EditorConnection, session_id: str) -> None:
        self._account = account
        self._connection = connection
        self._session_id = session_id
        self._root_id = ""
        self._asked: dict[str, tuple[int, asyncio.Task[None]]] = {}
        """Approval id -> the revision that is asked about, and the question."""
        self._seen: dict[str, int] = {}

    @property
    def is_open(self) -> bool:
        """Return whether a question waits for the person."""
        return bool(self._asked)

    async def start(self, root_id: str) -> None:
        """Ask about what waits already, and from now on. Raises EditorError."""
        self._root_id = root_id
        if self._account.may_write:
            query = {"limit": _PAGE, **({"org": self._account.org_id} if self._account.is_admin else {})}
            page = await self._account.request("GET", "/approvals/pending", query=query)
            for item in page["approvals"]:
                self.handle_item(item)

    async def end(self) -> None:
        """Withdraw all questions, and ask no more."""
        self._root_id = ""
        tasks = [task for _, task in self._asked.values()]
        self._asked.clear()
        self._seen.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def handle_item(self, item: Item) -> None:
        """Handle an approval as it is now."""
        if not self._root_id or not self._account.may_write:
            return
        approval_id, revision = item["approval_id"], int(item["revision"])
        waits = item["status"] == _PENDING and item["for_person"]
        if (asked := self._asked.get(approval_id)) is not None and (not waits or asked[0] != revision):
            del self._asked[approval_id]
            asked[1].cancel()
            if not waits:
                closing = asyncio.create_task(self._show_outcome(item))
                self._seen[approval_id] = revision
                closing.add_done_callback(_log_failure)
        is_new = self._seen.get(approval_id) != revision
        if waits and is_new and self._account.is_within(item["workspace_id"], self._root_id):
            self._seen[approval_id] = revision
            task = asyncio.create_task(self._ask(item))
            task.add_done_callback(_log_failure)
            self._asked[approval_id] = (revision, task)

    async def _ask(self, item: Item) -> None:
        call_id, title = _call_id(item), single_line(f"{item['requester_name']}: {item['action']}", _MAX_TITLE)
        text = _describe(item)
        await self._connection.update(self._session_id, tool_call(call_id, title, status=_PENDING, text=text))
        call = {
            **{"toolCallId": call_id, "title": title, "kind": "other", "status": _PENDING},
            **{"content": call_content(text), "rawInput": item["details"]},
        }
        chosen = await self._connection.ask_permission(self._session_id, call, _OPTIONS)
        self._asked.pop(item["approval_id"], None)
        if chosen is None:
            undecided = f"{text}\n\nNot decided here. The request waits in the inbox of the page."
            await self._connection.update(
                self._session_id, tool_call_update(call_id, status=_PENDING, text=undecided.strip())
            )
            return
        body = {"decision": chosen, "revision": item["revision"], "action_hash": item["action_hash"]}
        path = f"/workspaces/{item['workspace_id']}/approvals/{item['approval_id']}/decide"
        try:
            await self._show_outcome(await self._account.request("POST", path, body=body))
        except EditorError as error:
            await self._connection.update(
                self._session_id, tool_call_update(call_id, status="failed", text=f"Not decided: {error}")
            )

    async def _show_outcome(self, item: Item) -> None:
        decided, words = item.get("decided") or {}, _OUTCOMES.get(item["status"], "No longer waits for a person")
        by = (decided.get("by") or {}).get("name")
        text = " ".join(part for part in (words, f"by {by}" if by else "") if part)
        note = f"{text}: {decided['note']}" if decided.get("note") else text
        status = "completed" if item["status"] == "approved" else "failed"
        await self._connection.update(self._session_id, tool_call_update(_call_id(item), status=status, text=note))


def _call_id(item: Item) -> str:
    return f"approval-{item['approval_id']}-{item['revision']}"


def _describe(item: Item) -> str:
    lines = [str(item.get("reason") or "")]
    if item.get("risk"):
        lines.append("Risk: " + ", ".join(map(str, item["risk"])))
    if item.get("cost") is not None:
        lines.append(f"Cost: {item['cost']}")
    if item.get("details") not in (None, {}, []):
        lines.append(msgspec.json.format(msgspec.json.encode(item["details"]), indent=2).decode())
    return "\n\n".join(line for line in lines if line)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("an approval could not be shown in the editor: %s", error)
