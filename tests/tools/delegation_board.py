"""The routes of delegations as the walks of the tools see them, in memory, in a time that tests move. What they are
held to is `wire/schemas/delegations.py`; what the real ones do is shown through real servers."""

import asyncio
from typing import Any

import msgspec

from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.delegations import (
    DelegateResponse,
    DelegationDetail,
    DelegationItem,
    DelegationProgress,
    DelegationTimelineEntry,
    DelegationTreeNode,
    TreeDurations,
    TreeTotals,
)
from testing.clocks import FakeClock

TASK, PART = "01900000-0000-7000-8000-0000000000d1", "01900000-0000-7000-8000-0000000000d2"
_AT = "2026-11-22T10:00:00.000000Z"
_FIGURES = {"open": 1, "stuck": 0, "median_seconds": 2.5}
_ENDED = ("completed", "failed", "cancelled")


def item(**told: Any) -> DelegationItem:
    """A delegation in a list."""
    usual: dict[str, Any] = dict.fromkeys(DelegationItem.__struct_fields__)
    usual |= {"delegation_id": TASK, "source_id": "own", "source_name": "Own", "target_id": "peer"}
    usual |= {"target_name": "Peer", "summary": "Make tea", "status": "queued", "phase": "waiting", "attempt": 1}
    usual |= {"created_at": _AT, "updated_at": _AT, "deadline": _AT, "stuck": False, "root_id": TASK, "depth": 1}
    usual |= {"recorded": False, "seq": 1, "checks": 0, "verified": False}
    return DelegationItem(**{**usual, **told})


def full(one: DelegationItem, timeline: tuple[DelegationTimelineEntry, ...] = (), earlier: int = 0) -> DelegationDetail:
    """All about a delegation."""
    shared = set(DelegationTreeNode.__struct_fields__) & set(DelegationItem.__struct_fields__)

    def node(each: DelegationItem, children: list[DelegationTreeNode]) -> DelegationTreeNode:
        members = {name: getattr(each, name) for name in shared}
        sums = TreeTotals(1 + len(children), 1, 0, 0, 0)
        return DelegationTreeNode(**members, own_seconds=TreeDurations(0, 0), subtree=sums, children=children)

    below = item(delegation_id=PART, source_id="peer", source_name="Peer", target_id="aide", target_name="Aide")
    return DelegationDetail(
        delegation=one,
        task="Make tea",
        result=one.result,
        timeline=list(timeline),
        earlier=earlier,
        tree=node(one, [node(below, [])]),
        a2a_state="TASK_STATE_SUBMITTED",
    )


class Board:
    """A server on which one task is given. A wait ends when the task has moved, or when its time is over. (A
    `Speaks`.)"""

    def __init__(self, clock: FakeClock, *, source: str = "own", target: str = "peer") -> None:
        self.clock = clock
        self.source, self.target = source, target
        self.status, self.phase = "queued", "waiting"
        self.told: dict[str, Any] = {}
        """More members of the receipt."""
        self.timeline: tuple[DelegationTimelineEntry, ...] = ()
        self.earlier = 0
        self.progress: DelegationProgress | None = None
        self.queue_position: int | None = None
        self.limited_until: str | None = None
        self.friends: dict[str, bool | ToolError] = {}
        """Which workspaces may talk to the target."""
        self.refuses: dict[str, ToolError] = {}
        """By the last word of a path."""
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []
        self.listed = True
        """Whether the operator's list shows it."""
        self.holds = True
        """Whether it holds a request that waits."""
        self._moved = asyncio.Event()

    def move(self, status: str, phase: str, **told: Any) -> None:
        """Something happens to the task."""
        self.status, self.phase = status, phase
        self.told |= told
        self._moved.set()

    @property
    def paths(self) -> list[str]:
        """What was asked for, in its order."""
        return [path for _, path, _, _ in self.asked]

    @property
    def bodies(self) -> list[Any]:
        """With what."""
        return [body for _, _, body, _ in self.asked]

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """One request."""
        self.asked.append((method, path, body, headers or {}))
        verb = path.partition("?")[0].rsplit("/", 1)[1]
        if verb in self.refuses:
            raise self.refuses[verb]
        return await self._posted(verb, body) if method == "POST" else self._read(path, verb)

    async def _posted(self, verb: str, body: Any) -> Any:
        match verb:
            case "check-access":
                allowed = self.friends.get(body["caller_id"], False)
                if isinstance(allowed, ToolError):
                    raise allowed
                return {"allowed": allowed}
            case "cancel":
                if self.status not in _ENDED:
                    self.move("cancelled", "ended")
                return msgspec.to_builtins(self._item())
            case "status":
                return {"status": "noted", "delegation_status": self.status, "noted": self.status not in _ENDED}
        assert verb in ("delegate", "wait", "retry"), verb
        if self.holds and self.status not in _ENDED and body is not None and "wait" in body:
            self._moved.clear()
            await self.clock.wait(self._moved.wait(), body["wait"])
        return self._receipt(self.status if verb == "wait" else "delegated")

    def _read(self, path: str, verb: str) -> Any:
        if verb == "stats":
            return {"by_status": {"failed": 2}, "by_reason": {"expired": 2}, **_FIGURES}
        if path == "/session":
            return {"user": {"kind": "admin"}}
        if path == "/orgs":
            return [{"id": "o-1", "name": "Default"}]
        if path.startswith("/admin/delegations"):
            return [msgspec.to_builtins(self._item())] if self.listed else []
        assert path == f"/delegations/{TASK}", path
        return msgspec.to_builtins(full(self._item(), self.timeline, self.earlier))

    def _item(self) -> DelegationItem:
        members = {name: value for name, value in self.told.items() if name in DelegationItem.__struct_fields__}
        return item(
            source_id=self.source,
            target_id=self.target,
            status=self.status,
            phase=self.phase,
            progress=self.progress,
            queue_position=self.queue_position,
            target_limited_until=self.limited_until,
            **members,
        )

    def _receipt(self, status: str) -> Any:
        members = {name: value for name, value in self.told.items() if name in DelegateResponse.__struct_fields__}
        settled = self.status in _ENDED
        receipt = DelegateResponse(
            delegation_id=TASK,
            status=status,
            target_id=self.target,
            state=self.status,
            phase=self.phase,
            settled=settled,
            **members,
        )
        return msgspec.to_builtins(receipt)
