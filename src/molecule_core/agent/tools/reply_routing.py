"""Decides where an answer goes, before anything is sent. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from molecule_core.agent.mailbox.inbox import InboxEntry, MergedInbox, MessageOrigin
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.inbox import InboxMessage

_MAX_SHOWN = 20


class ReplyTarget(Struct, frozen=True):
    """Where an answer goes.

    `entry`: the message that it answers, if that waits here. An empty workspace: the caller's only one.
    """

    workspace_id: str
    peer_id: str
    entry: InboxEntry | None = None


def make_origin(workspace_id: str, peer_id: str) -> MessageOrigin:
    """Return the origin of a conversation: a workspace and its peer."""
    return MessageOrigin(workspace_id, peer_id)


def resolve_target(
    inbox: MergedInbox, *, workspace_id: str, peer_id: str, activity_id: str, single: bool
) -> ReplyTarget:
    """Resolve the target from the call's arguments and the inbox.

    Raises ToolError with the choices if it is not unique.
    """
    if activity_id:
        return _target_of_message(inbox, workspace_id, peer_id, activity_id, single)
    if peer_id:
        return _target_of_peer(inbox, workspace_id, peer_id, single)
    return _target_of_waiting(inbox, workspace_id, single)


def _target_of_message(
    inbox: MergedInbox, workspace_id: str, peer_id: str, activity_id: str, single: bool
) -> ReplyTarget:
    entries = inbox.find_entries(activity_id)
    origins = [entry.origin for entry in entries] or inbox.handled_origins(activity_id)
    if not origins:
        return ReplyTarget(workspace_id, peer_id)
    if workspace_id:
        matching = [each for each in origins if each.workspace_id == workspace_id]  # control: named-seat-asked
        if not matching:
            workspace_ids = ", ".join(each.workspace_id for each in origins)
            raise _reply_error(
                f"message {sanitize_line(activity_id)} was sent to workspace {workspace_ids}, not to "
                f"{sanitize_line(workspace_id)}. Answer as the workspace that received it.",
                "wrong_workspace",
            )
        origins = matching
    if len(origins) > 1:
        raise _ambiguous_error(entries, single)
    (message_origin,) = origins
    if peer_id and peer_id != message_origin.peer_id:
        sender = f"peer {message_origin.peer_id}" if message_origin.peer_id else "a person (omit peer_id)"
        raise _reply_error(
            f"message {sanitize_line(activity_id)} is from {sender}, not from {sanitize_line(peer_id)}.", "wrong_peer"
        )
    entry = next((each for each in entries if each.origin == message_origin), None)
    return ReplyTarget(message_origin.workspace_id, message_origin.peer_id, entry)


def _target_of_peer(inbox: MergedInbox, workspace_id: str, peer_id: str, single: bool) -> ReplyTarget:
    """Resolve a named peer; if it has written to several workspaces, one of these must be named."""
    if workspace_id or single:
        return ReplyTarget(workspace_id, peer_id)
    entries = [each for each in inbox.entries() if each.message.peer_id == peer_id]
    return ReplyTarget(_one_workspace(entries, single), peer_id)


def _target_of_waiting(inbox: MergedInbox, workspace_id: str, single: bool) -> ReplyTarget:
    """Resolve a call that names no peer.

    A workspace alone means its person, but not if only peers have written: an answer to one of them would reach the
    person. Without arguments, the target is the waiting conversation, if there is only one.
    """
    waiting = [each for each in inbox.entries() if workspace_id in ("", each.message.arrival_workspace_id)]
    origins = _distinct_origins(waiting)
    if not origins:
        return ReplyTarget(workspace_id, "")
    if len(origins) == 1 and not workspace_id:  # control: single-origin
        return ReplyTarget(origins[0].workspace_id, origins[0].peer_id)
    persons = [each for each in origins if not each.peer_id]
    if (workspace_id or single) and len(persons) == 1:
        return ReplyTarget(persons[0].workspace_id, "")
    raise _ambiguous_error(waiting, single)


def _one_workspace(entries: Sequence[InboxEntry], single: bool) -> str:
    workspace_ids = list(dict.fromkeys(each.message.arrival_workspace_id for each in entries))
    if len(workspace_ids) > 1:
        raise _ambiguous_error(entries, single)
    return workspace_ids[0] if workspace_ids else ""


def _distinct_origins(entries: Sequence[InboxEntry]) -> list[MessageOrigin]:
    return list(dict.fromkeys(each.origin for each in entries))


def _ambiguous_error(entries: Sequence[InboxEntry], single: bool) -> ToolError:
    shown = "\n".join(f"- {describe_choice(each.message, single=single)}" for each in entries[:_MAX_SHOWN])
    more = f"\n- and {len(entries) - _MAX_SHOWN} more" if len(entries) > _MAX_SHOWN else ""
    needed_arguments = "activity_id" if single else "activity_id, or workspace_id and peer_id"
    return _reply_error(
        f"it is not clear which message you answer. Nothing was sent. Set {needed_arguments} to those of one of "
        "these messages (to message the person of a workspace without answering, use "
        f"send_message_to_user):\n{shown}{more}",
        "",
    )


def workspace_of_handle(handle: str, known: Mapping[str, str], named_workspace: str) -> str:
    """Return the workspace whose message a handle names; empty if no such message was seen here.

    `known`: messages of that handle in the inbox, workspace -> activity id. Raises ToolError if the call names another
    workspace, or if several are possible.
    """
    if named_workspace and known and named_workspace not in known:
        raise _reply_error(
            f"the handle {sanitize_line(handle, 64)} belongs to a message to workspace {', '.join(known)}, not to "
            f"{sanitize_line(named_workspace, 64)}. Omit via_workspace.",
            "wrong_workspace",
        )
    if named_workspace or len(known) <= 1:
        return named_workspace or "".join(known)
    raise _reply_error(
        f"the handle {sanitize_line(handle, 64)} belongs to messages in several of your workspaces: "
        f"{', '.join(known)}. Set via_workspace to one of them.",
        "ambiguous_workspace",
    )


def describe_choice(message: InboxMessage, *, single: bool) -> str:
    """Describe a message as one of several choices."""
    where = "" if single else f"workspace_id={message.arrival_workspace_id} "
    sender = message.peer_name or message.user_name or "a person"
    return (
        f"activity_id={message.activity_id} {where}peer_id={message.peer_id or '(empty)'} "
        f"from {sanitize_line(sender, 60)}: {sanitize_line(message.text, 80)}"
    )


def _reply_error(text: str, code: str) -> ToolError:
    return ToolError(text, code or "ambiguous_reply")
