"""Renders threads, entries and mail from their rows alone, so responses, lists and events are the same."""

import msgspec
from msgspec import Raw

from molecule_core.common.clock import to_rfc3339
from molecule_core.threads.model import LogEntryRow, Mail, Thread
from molecule_core.wire.schemas.thread_log import EntryItem, ThreadFlag, ThreadStatus
from molecule_core.wire.schemas.threads import BaseInstructionsItem, MailItem, ThreadItem


def thread_item(thread: Thread, flags: list[ThreadFlag], *, tree_tokens: int | None = None) -> ThreadItem:
    """Render a thread for clients."""
    base = thread.base_ref
    return ThreadItem(
        thread_id=thread.thread_id,
        workspace_id=thread.workspace_id,
        org_id=thread.org_id,
        root_id=thread.root_id,
        parent_thread_id=thread.parent_id,
        requester_thread_id=thread.requester_id,
        forked_from=thread.fork_position,
        path=thread.path,
        task_name=thread.task_name,
        nickname=thread.nickname,
        role=thread.role,
        kind=thread.thread_kind,
        model=thread.model,
        effort=thread.effort,
        tools=thread.tool_names,
        permissions=thread.permission_map,
        status=ThreadStatus(thread.agent_status, thread.message),
        active_flags=flags,
        idle=not thread.open and not thread.closed,
        closed=bool(thread.closed),
        turn_id=thread.turn_id,
        queued=thread.queued_turn_ids,
        turns=thread.turns,
        generation=thread.generation,
        owner=thread.owner,
        owner_until=None if thread.owner is None else to_rfc3339(thread.owner_until),
        base=BaseInstructionsItem(base.version, base.sha256, base.provenance, base.item_id, base.bytes, base.tokens),
        tokens_used=thread.tokens,
        tree_tokens_used=tree_tokens,
        last_ordinal=thread.last_ordinal,
        created_at=to_rfc3339(thread.created_at),
        updated_at=to_rfc3339(thread.updated_at),
        call_id=thread.call_id,
        wake=thread.wake_policy,
        revision=thread.revision,
    )


def entry_item(entry_row: LogEntryRow, text: str | None = None) -> EntryItem:
    """Render a log entry for clients. `text`: of base instructions, which the log itself does not hold."""
    body = Raw(entry_row.body.encode())
    if text is not None:
        body = Raw(msgspec.json.encode({**msgspec.json.decode(entry_row.body), "text": text}))
    return EntryItem(
        ordinal=entry_row.ordinal,
        item_id=entry_row.item_id,
        turn_id=entry_row.turn_id,
        at=to_rfc3339(entry_row.at),
        type=entry_row.type,
        entry=body,
    )


def mail_item(mail: Mail) -> MailItem:
    """Render mail with its delivery state."""
    return MailItem(
        mail_id=mail.mail_id,
        mail_type=mail.mail_type,
        author_thread_id=mail.author_id,
        receiver_thread_id=mail.receiver_id,
        state=mail.state,  # type: ignore[arg-type]
        sent_at=to_rfc3339(mail.sent_at),
    )
