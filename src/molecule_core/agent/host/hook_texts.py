"""Texts of the hooks for the model. Names are of others and sanitized; no text of a message is in them. Pure."""

from collections.abc import Iterable, Sequence

from molecule_core.agent.sanitize import sanitize_line
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.inbox import InboxMessage
from molecule_core.wire.schemas.runtimes import Runtime, tool_name

_MAX_NAMES = 5
_MAX_NAME_LENGTH = 40
_WAIT_TOOL, _REPLY_TOOL, _DECLINE_TOOL, _DECIDE_TOOL = (
    tool_name(each, Runtime.CLAUDE_CODE) for each in ("wait_for_message", "reply", "decline", "decide_approval")
)


def wake_text(messages: Sequence[InboxMessage]) -> str:
    """Return the line that wakes the host."""
    count = "1 message waits" if len(messages) == 1 else f"{len(messages)} messages wait"
    return (
        f"Molecule: {count}, from {_list_names(messages)}. Call {_WAIT_TOOL} now, and follow the instructions of the "
        "message."
    )


def stop_text(messages: Sequence[InboxMessage]) -> str:
    """Return why the agent must go on."""
    lines = [_unanswered_text(each) for each in messages[:_MAX_NAMES]]
    more = [f"{len(messages) - _MAX_NAMES} more messages are not answered."] if len(messages) > _MAX_NAMES else []
    return "\n".join(
        [*lines, *more, "Their senders do not see this terminal. If you wait for other work, report that as progress."]
    )


def _unanswered_text(message: InboxMessage) -> str:
    sender = _clean_name(message.peer_name or message.user_name) or "a person"
    if message.kind == MessageKind.APPROVAL_REQUEST:
        return f"You have not decided approval {sanitize_line(message.approval_id)}. Call {_DECIDE_TOOL}."
    if message.reply_handle:
        handle = sanitize_line(message.reply_handle, 64)
        calls = f'{_REPLY_TOOL} (handle="{handle}") or {_DECLINE_TOOL}'
        return f"Message {handle} from {sender} is not answered. Call {calls}."
    activity = sanitize_line(message.activity_id, 64)
    reply = tool_name("reply_to_workspace", Runtime.CLAUDE_CODE)
    return f'Message {activity} from {sender} is not answered. Call {reply} (activity_id="{activity}").'


def _list_names(messages: Iterable[InboxMessage]) -> str:
    names = list(dict.fromkeys(_clean_name(each.peer_name or each.user_name) or "a person" for each in messages))
    more = [f"{len(names) - _MAX_NAMES} others"] if len(names) > _MAX_NAMES else []
    return ", ".join([*names[:_MAX_NAMES], *more])


def _clean_name(name: str) -> str:
    """Return a name without characters that could look like markup."""
    return sanitize_line("".join(" " if each in "<>`[]{}" else each for each in name), _MAX_NAME_LENGTH)
