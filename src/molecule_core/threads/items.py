"""How threads are shown: the same in answers, lists and events, since all is made of their rows and logs."""

import msgspec
from msgspec import Raw

from molecule_core.ground.clock import rfc3339
from molecule_core.threads.model import Line, Mail, Thread
from molecule_core.wire.threadlog import EntryItem, Flag, ThreadStatus
from molecule_core.wire.threads import BaseItem, MailItem, ThreadItem


def item_of(thread: Thread, flags: list[Flag], *, tree_tokens: int | None = None) -> ThreadItem:
    """A thread as clients read it."""
    base = thread.base
    return ThreadItem(
        thread_id=thread.thread_id,
        workspace_id=thread.workspace_id,
        org_id=thread.org_id,
        root_id=thread.root_id,
        parent_thread_id=thread.parent_id,
        requester_thread_id=thread.requester_id,
        forked_from=thread.origin,
        path=thread.path,
        task_name=thread.task_name,
        nickname=thread.nickname,
        role=thread.role,
        kind=thread.sort,
        model=thread.model,
        effort=thread.effort,
        tools=thread.tool_names,
        permissions=thread.allowed,
        status=ThreadStatus(thread.stands, thread.message),
        active_flags=flags,
        idle=not thread.open and not thread.closed,
        closed=bool(thread.closed),
        turn_id=thread.turn_id,
        queued=thread.queued,
        turns=thread.turns,
        generation=thread.generation,
        owner=thread.owner,
        owner_until=None if thread.owner is None else rfc3339(thread.owner_until),
        base=BaseItem(base.version, base.sha256, base.provenance, base.item_id, base.bytes, base.tokens),
        tokens_used=thread.tokens,
        tree_tokens_used=tree_tokens,
        last_ordinal=thread.last_ordinal,
        created_at=rfc3339(thread.created_at),
        updated_at=rfc3339(thread.updated_at),
        call_id=thread.call_id,
        wake=thread.edge,
        revision=thread.revision,
    )


def line_item(line: Line, text: str | None = None) -> EntryItem:
    """A line of a log as clients read it. `text`: of base instructions, which the log itself does not hold."""
    body = Raw(line.body.encode())
    if text is not None:
        body = Raw(msgspec.json.encode({**msgspec.json.decode(line.body), "text": text}))
    return EntryItem(
        ordinal=line.ordinal,
        item_id=line.item_id,
        turn_id=line.turn_id,
        at=rfc3339(line.at),
        type=line.type,
        entry=body,
    )


def mail_item(mail: Mail) -> MailItem:
    """A letter with its receipt."""
    return MailItem(
        mail_id=mail.mail_id,
        mail_type=mail.sort,
        author_thread_id=mail.author_id,
        receiver_thread_id=mail.receiver_id,
        state=mail.state,  # type: ignore[arg-type]
        sent_at=rfc3339(mail.sent_at),
    )
