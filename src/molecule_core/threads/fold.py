"""Folds the log of a thread into its state. Pure functions; the row of a thread is updated by one entry at a time."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from molecule_core.common.text import encode_json
from molecule_core.threads.base_instructions import to_base_ref
from molecule_core.threads.model import Thread
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import BaseInstructionsRef, ThreadEntry

_NO_BASE = {"base_thread": "", "base_version": 0, "base_sha": "", "base_item": "", "base_bytes": 0, "base_tokens": 0}
_END_STATUSES: Mapping[str, str] = {"completed": "completed", "failed": "errored", "interrupted": "interrupted"}


def fold_entries(entries: Iterable[tuple[ThreadEntry, int]]) -> Thread:
    """Return the state of a thread after its whole log, given entries with their times.

    Raises LookupError if the log does not begin with the thread's creation."""
    thread: Thread | None = None
    for entry, at in entries:
        if isinstance(entry, log.ThreadCreatedEntry):
            thread = fold_created(entry, at)
        elif thread is None:
            raise LookupError("a log must begin with the creation of its thread")
        else:
            thread = fold_entry(thread, entry, at)
    if thread is None:
        raise LookupError("a thread cannot have an empty log")
    return thread


def fold_created(entry: log.ThreadCreatedEntry, at: int) -> Thread:
    """Return a thread after the first entry of its log."""
    fork = entry.forked_from
    base: dict[str, Any] = {**_NO_BASE, "base_from": "null"} if entry.base is None else _base_columns(entry.base)
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
        tools=encode_json(entry.tools),
        permissions=encode_json(entry.permissions),
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


def fold_entry(thread: Thread, entry: ThreadEntry, at: int) -> Thread:
    """Return a thread after one more entry of its log."""
    handler = _HANDLERS.get(type(entry))
    changes = {} if handler is None else handler(thread, entry)
    return replace(thread, **changes, last_ordinal=thread.last_ordinal + 1, updated_at=at)


# -- handlers of entries -----------------------------------------------------------------------------------------------


def _base_columns(base: BaseInstructionsRef) -> dict[str, Any]:
    return {
        "base_thread": base.thread_id,
        "base_version": base.version,
        "base_sha": base.sha256,
        "base_item": base.item_id,
        "base_from": encode_json(base.provenance),
        "base_bytes": base.bytes,
        "base_tokens": base.tokens,
    }


def _on_base_set(thread: Thread, entry: log.BaseInstructionsEntry) -> dict[str, Any]:
    return _base_columns(to_base_ref(thread.thread_id, entry))


def _on_layer(_: Thread, entry: log.InstructionLayerEntry) -> dict[str, Any]:
    return {entry.layer: entry.version}


def _on_settings_set(_: Thread, entry: log.SettingsEntry) -> dict[str, Any]:
    return {
        "model": entry.model,
        "effort": entry.effort,
        "tools": encode_json(entry.tools),
        "permissions": encode_json(entry.permissions),
    }


def _on_turn_accepted(thread: Thread, entry: log.TurnAcceptedEntry) -> dict[str, Any]:
    changes: dict[str, Any] = {"queue": encode_json([*thread.queued_turn_ids, entry.turn_id]), "open": 1}
    if thread.turn_id is None:
        changes |= {"status": "pending_init", "message": None}
    if entry.trigger == "user":
        changes["heard"] = thread.last_ordinal + 1
    return changes


def _on_turn_started(thread: Thread, entry: log.TurnStartedEntry) -> dict[str, Any]:
    if thread.turn_id == entry.turn_id:
        return {}
    return {
        "turn_id": entry.turn_id,
        "queue": encode_json([each for each in thread.queued_turn_ids if each != entry.turn_id]),
        "status": "running",
        "message": None,
        "turns": thread.turns + 1,
        "turn_tokens": 0,
    }


def _on_user_message(thread: Thread, _: log.UserMessageEntry) -> dict[str, Any]:
    return {"heard": thread.last_ordinal + 1}


def _on_turn_ended(thread: Thread, entry: log.TurnEndedEntry) -> dict[str, Any]:
    """Apply the end of a turn, which may never have begun."""
    queue = [each for each in thread.queued_turn_ids if each != entry.turn_id]
    running = None if thread.turn_id == entry.turn_id else thread.turn_id
    ended, message = _END_STATUSES[entry.status], entry.error if entry.status == "failed" else entry.final
    changes: dict[str, Any] = {
        "turn_id": running,
        "queue": encode_json(queue),
        "open": int(running is not None or bool(queue)),
        "ends": thread.ends + 1,
        "end_status": ended,
        "end_message": message,
    }
    if running is None:
        changes |= {"flags": "[]", "waits": "[]"}
        changes |= {"status": "pending_init", "message": None} if queue else {"status": ended, "message": message}
    return changes


def _on_collab(thread: Thread, entry: log.CollabCallEntry) -> dict[str, Any]:
    if entry.tool != "wait":
        return {}
    others = [each for each in thread.wait_call_ids if each != entry.call_id]
    return {"waits": encode_json([*others, entry.call_id] if entry.status == "inProgress" else others)}


def _on_usage(thread: Thread, entry: log.UsageEntry) -> dict[str, Any]:
    used_tokens = entry.input + entry.output
    return {"tokens": thread.tokens + used_tokens, "turn_tokens": thread.turn_tokens + used_tokens}


def _on_status_note(_: Thread, entry: log.StatusEntry) -> dict[str, Any]:
    return {"flags": encode_json(sorted(set(entry.flags)))}


def _on_closed(thread: Thread, _: log.ThreadClosedEntry) -> dict[str, Any]:
    return {
        "closed": 1,
        "status": "shutdown",
        "message": None,
        "waits": "[]",
        "ends": thread.ends + 1,
        "end_status": "shutdown",  # control: closed-end-status
        "end_message": None,
    }


def _on_resumed(thread: Thread, _: log.ThreadResumedEntry) -> dict[str, Any]:
    return {"closed": 0, "status": "pending_init", "message": None} if thread.closed else {}


_HANDLERS: Mapping[type, Callable[[Thread, Any], dict[str, Any]]] = {
    log.BaseInstructionsEntry: _on_base_set,
    log.InstructionLayerEntry: _on_layer,
    log.SettingsEntry: _on_settings_set,
    log.TurnAcceptedEntry: _on_turn_accepted,
    log.TurnStartedEntry: _on_turn_started,
    log.UserMessageEntry: _on_user_message,
    log.TurnEndedEntry: _on_turn_ended,
    log.CollabCallEntry: _on_collab,
    log.UsageEntry: _on_usage,
    log.StatusEntry: _on_status_note,
    log.ThreadClosedEntry: _on_closed,
    log.ThreadResumedEntry: _on_resumed,
}
"""The entries that change the state; all others only make the log longer."""
