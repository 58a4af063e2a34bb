"""From the log to how a thread stands: a pure fold. The row of a thread is kept so, an entry at a time."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.threads.bases import ref_of
from molecule_core.threads.model import Thread
from molecule_core.wire import threadlog as log
from molecule_core.wire.threadlog import BaseRef, Entry

_NO_BASE = {"base_thread": "", "base_version": 0, "base_sha": "", "base_item": "", "base_bytes": 0, "base_tokens": 0}
_ENDS: Mapping[str, str] = {"completed": "completed", "failed": "errored", "interrupted": "interrupted"}


def folded(entries: Iterable[tuple[Entry, int]]) -> Thread:
    """How a thread stands after its whole log, each entry with its time. Raises LookupError: the log does not begin
    with the thread's creation."""
    thread: Thread | None = None
    for entry, at in entries:
        if isinstance(entry, log.Created):
            thread = born(entry, at)
        elif thread is None:
            raise LookupError("a log begins with the creation of its thread")
        else:
            thread = advance(thread, entry, at)
    if thread is None:
        raise LookupError("an empty log is no thread")
    return thread


def born(entry: log.Created, at: int) -> Thread:
    """A thread after the first line of its log."""
    fork = entry.forked_from
    base: dict[str, Any] = {**_NO_BASE, "base_from": "null"} if entry.base is None else _base(entry.base)
    return Thread(
        thread_id=entry.thread_id,
        org_id=entry.org_id,
        workspace_id=entry.workspace_id,
        root_id=entry.root_id,
        root_workspace_id=entry.root_workspace_id or entry.workspace_id,
        parent_id=entry.parent_thread_id,
        requester_id=entry.requester_thread_id,
        fork_id=None if fork is None else fork.thread_id,
        fork_at=0 if fork is None else fork.position,
        fork_since=0 if fork is None else fork.since,
        path=entry.path,
        task_name=entry.task_name,
        nickname=entry.nickname,
        role=entry.role,
        kind=entry.kind,
        call_id=entry.call_id,
        wake=entry.wake,
        model=entry.model,
        effort=entry.effort,
        tools=_json(entry.tools),
        permissions=_json(entry.permissions),
        **base,
        developer=entry.developer,
        context=entry.context,
        status="pending_init",
        message=None,
        ends=0,
        end_status=None,
        end_message=None,
        turn_id=None,
        queue="[]",
        open=0,
        turns=0,
        closed=0,
        flags="[]",
        waits="[]",
        heard=0,
        tokens=0,
        turn_tokens=0,
        last_ordinal=1,
        created_at=at,
        updated_at=at,
    )


def advance(thread: Thread, entry: Entry, at: int) -> Thread:
    """How a thread stands after one more line of its log."""
    step = _STEPS.get(type(entry))
    changes = {} if step is None else step(thread, entry)
    return replace(thread, **changes, last_ordinal=thread.last_ordinal + 1, updated_at=at)


# -- one line each -----------------------------------------------------------------------------------------------------


def _base(base: BaseRef) -> dict[str, Any]:
    return {
        "base_thread": base.thread_id,
        "base_version": base.version,
        "base_sha": base.sha256,
        "base_item": base.item_id,
        "base_from": _json(base.provenance),
        "base_bytes": base.bytes,
        "base_tokens": base.tokens,
    }


def _base_set(thread: Thread, entry: log.BaseSet) -> dict[str, Any]:
    return _base(ref_of(thread.thread_id, entry))


def _layer(_: Thread, entry: log.Layer) -> dict[str, Any]:
    return {entry.layer: entry.version}


def _settings(_: Thread, entry: log.SettingsSet) -> dict[str, Any]:
    return {
        "model": entry.model,
        "effort": entry.effort,
        "tools": _json(entry.tools),
        "permissions": _json(entry.permissions),
    }


def _accepted(thread: Thread, entry: log.TurnAccepted) -> dict[str, Any]:
    changes: dict[str, Any] = {"queue": _json([*thread.queued, entry.turn_id]), "open": 1}
    if thread.turn_id is None:
        changes |= {"status": "pending_init", "message": None}
    if entry.trigger == "user":
        changes["heard"] = thread.last_ordinal + 1
    return changes


def _started(thread: Thread, entry: log.TurnStarted) -> dict[str, Any]:
    if thread.turn_id == entry.turn_id:
        return {}
    return {
        "turn_id": entry.turn_id,
        "queue": _json([each for each in thread.queued if each != entry.turn_id]),
        "status": "running",
        "message": None,
        "turns": thread.turns + 1,
        "turn_tokens": 0,
    }


def _user(thread: Thread, _: log.UserMessage) -> dict[str, Any]:
    return {"heard": thread.last_ordinal + 1}


def _ended(thread: Thread, entry: log.TurnEnded) -> dict[str, Any]:
    """Also of a turn that was never begun."""
    queue = [each for each in thread.queued if each != entry.turn_id]
    running = None if thread.turn_id == entry.turn_id else thread.turn_id
    ended, message = _ENDS[entry.status], entry.error if entry.status == "failed" else entry.final
    changes: dict[str, Any] = {
        "turn_id": running,
        "queue": _json(queue),
        "open": int(running is not None or bool(queue)),
        "ends": thread.ends + 1,
        "end_status": ended,
        "end_message": message,
    }
    if running is None:
        changes |= {"flags": "[]", "waits": "[]"}
        changes |= {"status": "pending_init", "message": None} if queue else {"status": ended, "message": message}
    return changes


def _collab(thread: Thread, entry: log.Collab) -> dict[str, Any]:
    if entry.tool != "wait":
        return {}
    others = [each for each in thread.waiting if each != entry.call_id]
    return {"waits": _json([*others, entry.call_id] if entry.status == "inProgress" else others)}


def _usage(thread: Thread, entry: log.Usage) -> dict[str, Any]:
    spent = entry.input + entry.output
    return {"tokens": thread.tokens + spent, "turn_tokens": thread.turn_tokens + spent}


def _status(_: Thread, entry: log.StatusNote) -> dict[str, Any]:
    return {"flags": _json(sorted(set(entry.flags)))}


def _closed(thread: Thread, _: log.Closed) -> dict[str, Any]:
    return {
        "closed": 1,
        "status": "shutdown",
        "message": None,
        "waits": "[]",
        "ends": thread.ends + 1,
        "end_status": "shutdown",  # control: closed-end-status
        "end_message": None,
    }


def _resumed(thread: Thread, _: log.Resumed) -> dict[str, Any]:
    return {"closed": 0, "status": "pending_init", "message": None} if thread.closed else {}


_STEPS: Mapping[type, Callable[[Thread, Any], dict[str, Any]]] = {
    log.BaseSet: _base_set,
    log.Layer: _layer,
    log.SettingsSet: _settings,
    log.TurnAccepted: _accepted,
    log.TurnStarted: _started,
    log.UserMessage: _user,
    log.TurnEnded: _ended,
    log.Collab: _collab,
    log.Usage: _usage,
    log.StatusNote: _status,
    log.Closed: _closed,
    log.Resumed: _resumed,
}
"""The lines that change how a thread stands; any other only makes the log longer."""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
