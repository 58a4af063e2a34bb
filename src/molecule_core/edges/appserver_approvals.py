"""Approvals as requests of the server to clients of the app-server dialect: asked of persons who follow a tree, and
answered through the REST route that decides, so that whoever comes first has decided.

Above: `edges/appserver.py`. Below: the methods, which ask the app.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.access.model import Kind, Role
from molecule_core.access.rules import may
from molecule_core.edges.appserver_calls import Dialect, Refused, Reply
from molecule_core.edges.appserver_items import Told
from molecule_core.edges.routes import Call
from molecule_core.wire import appserver as app
from molecule_core.wire.approvals import ApprovalItem

_ASKS = frozenset(("APPROVAL_REQUESTED", "APPROVAL_ESCALATED", "APPROVAL_ANSWERED"))
_ENDS = frozenset(
    ("APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_WITHDRAWN", "APPROVAL_INFO_REQUESTED")
)
HEARD = _ASKS | _ENDS
_ITEM = msgspec.json.Decoder(ApprovalItem)
_DECISIONS = {"accept": "approve", "decline": "deny"}


class _Asked(NamedTuple):
    """What a client was shown."""

    name: str
    item: ApprovalItem


class Approving:
    """What one client was asked, and has not been told the end of."""

    def __init__(self, call: Call, dialect: Dialect, say: Callable[[Struct], None]) -> None:
        self._call = call
        self._dialect = dialect
        self._say = say
        self._trees: dict[str, dict[str, str]] = {}
        self._asked: dict[str, _Asked] = {}
        self.decides = call.by.kind is Kind.PERSON and may(call.by.role, Role.OPERATOR)
        """Whether the client is one who may decide at all."""

    def watch(self, root_id: str, threads: Iterable[tuple[str, str]]) -> None:
        """A followed tree has these threads, too, each with its workspace."""
        self._trees.setdefault(root_id, {}).update(threads)

    def leave(self, root_id: str) -> None:
        """The tree is not followed any more."""
        self._trees.pop(root_id, None)

    async def ask_open(self) -> None:
        """Asks what waits already."""
        if not self.decides:
            return
        try:
            for item in await self._dialect.waiting_approvals(self._call):
                self._ask(item)
        except Refused as refused:
            self._warn(None, refused.fault.message, refused.fault.data)

    def hear(self, event: str, payload: bytes) -> list[Told]:
        """Something has happened to an approval: it is asked, or it is told that nothing is asked any more."""
        item = _ITEM.decode(payload)
        if event in _ASKS:
            self._ask(item)
            return []
        asked = self._asked.pop(item.approval_id, None)
        ended = {"requestId": asked.name, "status": item.status} if asked is not None else {}
        return [Told("serverRequest/resolved", ended)] if ended else []

    def _ask(self, item: ApprovalItem) -> None:
        known = self._asked.get(item.approval_id)
        roots = self._roots(item)
        if not (self.decides and roots) or (known and known.item.revision >= item.revision):
            return
        asked = self._asked[item.approval_id] = _Asked(f"approval:{item.approval_id}:{item.seq}", item)
        self._say(app.ServerRequest(asked.name, "item/approval/requestApproval", _shown(item, roots)))

    def _roots(self, item: ApprovalItem) -> list[str]:
        """The followed trees in which an approval is asked. One that names its thread is theirs at once; of the others
        that a workspace asks, those that it is a person's turn to decide."""
        if item.thread_id is not None:
            return [root for root, threads in self._trees.items() if item.thread_id in threads]
        seats = ((root, threads.values()) for root, threads in self._trees.items() if item.for_person)
        return [root for root, every in seats if item.workspace_id in every]

    async def take(self, reply: Reply) -> None:
        """The client has answered. What decides nothing is said to it."""
        asked = next((each for each in self._asked.values() if each.name == reply.id), None)
        if asked is None or reply.result is None:
            return
        said = reply.result if isinstance(reply.result, dict) else {}
        decision, note = _DECISIONS.get(str(said.get("decision"))), said.get("note") or ""
        if decision is None:
            self._warn(asked.name, f"decision must be one of {', '.join(_DECISIONS)}; the approval still waits", None)
            return
        item = asked.item
        body = {"decision": decision, "revision": item.revision, "action_hash": item.action_hash, "note": note}
        try:
            await self._dialect.decide(self._call, item, body)
        except Refused as refused:
            self._warn(asked.name, refused.fault.message, refused.fault.data)

    def _warn(self, name: str | None, message: str, data: Any) -> None:
        self._say(app.Notification("warning", {"requestId": name, "message": message, "data": data}))


def _shown(item: ApprovalItem, roots: list[str]) -> app.ApprovalParams:
    return app.ApprovalParams(
        thread_id=item.thread_id,
        root_thread_ids=roots,
        workspace_id=item.workspace_id,
        requester_name=item.requester_name,
        approval_id=item.approval_id,
        action=item.action,
        reason=item.reason,
        details=item.details,
        cost=item.cost,
        risk=item.risk,
        revision=item.revision,
        expires_at=item.expires_at,
        available_decisions=list(_DECISIONS),
    )
