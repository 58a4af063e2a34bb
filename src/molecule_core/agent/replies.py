"""Where an answer goes: decided before anything is sent. Pure.

Above: verbs. Below: the inbox.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from molecule_core.agent.inbox import Entry, Inbox, Origin
from molecule_core.agent.neutral import line
from molecule_core.wire.inbox import InboxMessage
from molecule_core.wire.toolspec import ToolError

_MOST_SHOWN = 20


class Target(Struct, frozen=True):
    """Where an answer goes; `entry`: the message that it answers, if that waits here. An empty workspace: the caller's
    only one."""

    workspace_id: str
    peer_id: str
    entry: Entry | None = None


def origin(workspace_id: str, peer_id: str) -> Origin:
    """A conversation: a seat, and who is at the other end."""
    return Origin(workspace_id, peer_id)


def target_of(inbox: Inbox, *, workspace_id: str, peer_id: str, activity_id: str, single: bool) -> Target:
    """Who is meant by what a call names, and by what waits. Raises ToolError with the choices if that is not one."""
    if activity_id:
        return _of_message(inbox, workspace_id, peer_id, activity_id, single)
    if peer_id:
        return _of_peer(inbox, workspace_id, peer_id, single)
    return _of_nothing(inbox, workspace_id, single)


def _of_message(inbox: Inbox, workspace_id: str, peer_id: str, activity_id: str, single: bool) -> Target:
    entries = inbox.find(activity_id)
    origins = [entry.origin for entry in entries] or inbox.handled(activity_id)
    if not origins:
        return Target(workspace_id, peer_id)
    if workspace_id:
        here = [each for each in origins if each.workspace_id == workspace_id]  # control: named-seat-asked
        if not here:
            seats = ", ".join(each.workspace_id for each in origins)
            raise _refused(
                f"message {line(activity_id)} came to workspace {seats}, not to {line(workspace_id)}. Answer from "
                "where it came to.",
                "wrong_workspace",
            )
        origins = here
    if len(origins) > 1:
        raise _ambiguous(entries, single)
    (came,) = origins
    if peer_id and peer_id != came.peer_id:
        who = f"peer {came.peer_id}" if came.peer_id else "a person (leave peer_id empty)"
        raise _refused(f"message {line(activity_id)} is from {who}, not from {line(peer_id)}.", "wrong_peer")
    entry = next((each for each in entries if each.origin == came), None)
    return Target(came.workspace_id, came.peer_id, entry)


def _of_peer(inbox: Inbox, workspace_id: str, peer_id: str, single: bool) -> Target:
    """A peer is named: a peer that has written to several workspaces is not one place."""
    if workspace_id or single:
        return Target(workspace_id, peer_id)
    entries = [each for each in inbox.entries() if each.message.peer_id == peer_id]
    return Target(_one_workspace(entries, single), peer_id)


def _of_nothing(inbox: Inbox, workspace_id: str, single: bool) -> Target:
    """No peer is named. A workspace without a peer means its person, but not if only peers have written: an answer to
    one of them would stand before the person. Nothing at all means what waits, if that is one conversation."""
    waiting = [each for each in inbox.entries() if workspace_id in ("", each.message.arrival_workspace_id)]
    origins = _distinct(waiting)
    if not origins:
        return Target(workspace_id, "")
    if len(origins) == 1 and not workspace_id:  # control: single-origin
        return Target(origins[0].workspace_id, origins[0].peer_id)
    persons = [each for each in origins if not each.peer_id]
    if (workspace_id or single) and len(persons) == 1:
        return Target(persons[0].workspace_id, "")
    raise _ambiguous(waiting, single)


def _one_workspace(entries: Sequence[Entry], single: bool) -> str:
    seats = list(dict.fromkeys(each.message.arrival_workspace_id for each in entries))
    if len(seats) > 1:
        raise _ambiguous(entries, single)
    return seats[0] if seats else ""


def _distinct(entries: Sequence[Entry]) -> list[Origin]:
    return list(dict.fromkeys(each.origin for each in entries))


def _ambiguous(entries: Sequence[Entry], single: bool) -> ToolError:
    shown = "\n".join(f"- {choice(each.message, single=single)}" for each in entries[:_MOST_SHOWN])
    more = f"\n- and {len(entries) - _MOST_SHOWN} more" if len(entries) > _MOST_SHOWN else ""
    named = "activity_id" if single else "activity_id, or workspace_id and peer_id"
    return _refused(
        f"which message do you answer? Nothing was sent. Name {named} of one of these (to write to the person of a "
        f"workspace without answering, use send_message_to_user):\n{shown}{more}",
        "",
    )


def seat_of(handle: str, known: Mapping[str, str], named: str) -> str:
    """The seat whose message a handle names; empty if no message with it was seen here. `known`: what the inbox has of
    that handle, workspace -> activity id. Raises ToolError if the seat that a call names is another one, or if several
    are possible."""
    if named and known and named not in known:
        raise _refused(
            f"the handle {line(handle, 64)} belongs to a message to workspace {', '.join(known)}, not to "
            f"{line(named, 64)}. Leave via_workspace out.",
            "wrong_workspace",
        )
    if named or len(known) <= 1:
        return named or "".join(known)
    raise _refused(
        f"the handle {line(handle, 64)} names a message in several of your workspaces: {', '.join(known)}. Say which "
        "one with via_workspace.",
        "ambiguous_workspace",
    )


def choice(message: InboxMessage, *, single: bool) -> str:
    """A message as one of several that may be meant."""
    where = "" if single else f"workspace_id={message.arrival_workspace_id} "
    who = message.peer_name or message.user_name or "a person"
    return (
        f"activity_id={message.activity_id} {where}peer_id={message.peer_id or '(empty)'} "
        f"from {line(who, 60)}: {line(message.text, 80)}"
    )


def _refused(text: str, code: str) -> ToolError:
    return ToolError(text, code or "ambiguous_reply")
