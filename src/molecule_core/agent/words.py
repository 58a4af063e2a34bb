"""A message as the agent's side shows it to a model, where a host shows it by itself. Pure.

Above: channel. Below: neutral, the registry of tools.
"""

from molecule_core.agent.neutral import harmless, line, visible
from molecule_core.wire import markup
from molecule_core.wire.inbox import APPROVALS, InboxMessage
from molecule_core.wire.toolspec import Runtime, tool_name

REPLY, POP, DECIDE = "reply_to_workspace", "inbox_pop", "decide_approval"


def pushed(message: InboxMessage, *, single: bool, runtime: Runtime) -> tuple[str, dict[str, str]]:
    """A message as text for a host, and the facts beside it: keys that are identifiers, values that are text. Where the
    server says how to answer, its words and the message are all: the host puts its own tag around them.

    A message may be shown in the middle of a task, with a warning that imperatives in it are not to be trusted. So what
    we say is facts of routing; how to answer is also in the descriptions of the tools."""
    if (told := message.instructions) is not None:
        content = markup.block(visible(told.text), visible(message.text))
        return content, _meta(message, line(told.reply_via), single=single)
    if message.kind == APPROVALS[0] and message.intent == "request":
        return _asked(message, tool_name(DECIDE, runtime), single=single)
    reply = tool_name(REPLY, runtime)
    route = {} if single else {"workspace_id": message.arrival_workspace_id}
    route |= {"peer_id": message.peer_id, "activity_id": message.activity_id}
    shown = ", ".join(f'{name}="{line(value)}"' for name, value in route.items())
    due = "an answer is expected" if message.intent == "request" else "no answer is expected"
    content = (
        f"{said(message)}\n\n"
        f"[Molecule: {due}; the reply tool is {reply} ({shown}, text=…); "
        f"without an answer, {tool_name(POP, runtime)} acknowledges it.]"
    )
    return content, _meta(message, reply, single=single)


def _asked(message: InboxMessage, decide: str, *, single: bool) -> tuple[str, dict[str, str]]:
    """The same of a message that asks for a decision, which no answer is."""
    route = {"approval_id": message.approval_id, "revision": str(message.revision), "action_hash": message.action_hash}
    shown = ", ".join(f'{name}="{line(value)}"' for name, value in route.items())
    content = f"{said(message)}\n\n[Molecule: a decision is expected; only {decide} gives it ({shown}, decision=…).]"
    return content, _meta(message, decide, single=single)


def said(message: InboxMessage) -> str:
    """Who says what, without a word about the answer."""
    return f"{_from(message)}\n\n{harmless(message.text)}{_files(message)}"


def facts_of(message: InboxMessage) -> dict[str, str]:
    """The facts beside it for a reader that has no tools."""
    return _meta(message, "", single=True)


def _from(message: InboxMessage) -> str:
    if not message.peer_id:
        who = f"From the person {line(message.user_name)}" if message.user_name else "From a person on the canvas"
    else:
        name = line(message.peer_name) or "unnamed"
        role = f" ({line(message.peer_role)})" if message.peer_role else ""
        who = f"From the peer agent {name}{role}, workspace {line(message.peer_id)}"
    return f"{who}:" + (" (shown before and not acknowledged)" if message.redelivered else "")


def _files(message: InboxMessage) -> str:
    names = _names(message)
    return f"\n\nFiles: {names}" if names else ""


def _names(message: InboxMessage) -> str:
    return ", ".join(line(str(each.get("name") or each.get("uri") or "file")) for each in message.attachments)


def _meta(message: InboxMessage, reply: str, *, single: bool) -> dict[str, str]:
    """Never a key `source`: the host sets it itself, and would then say it twice."""
    facts = {
        "kind": message.kind,
        "arrival_workspace_id": "" if single else message.arrival_workspace_id,
        "peer_id": message.peer_id,
        "peer_name": message.peer_name,
        "peer_role": message.peer_role,
        "user_name": message.user_name,
        "method": message.method,
        "intent": message.intent,
        "activity_id": message.activity_id,
        "delegation_id": message.delegation_id,
        "approval_id": message.approval_id,
        "revision": str(message.revision or ""),
        "action_hash": message.action_hash,
        "ts": message.created_at,
        "attempt": str(message.attempt),
        "reply_tool": reply,
    }
    if (told := message.instructions) is not None:
        facts |= {"reply_handle": told.reply_handle, "attachments": _names(message)}
        facts["redelivered"] = "true" if message.redelivered else ""
    needed = ("peer_id", "activity_id")
    return {name: line(value) for name, value in facts.items() if value or name in needed}
