"""Builds the updates of a session that editors show. Pure."""

import re
from typing import Any

from molecule_core.common.text import remove_terminal_codes, single_line

Members = dict[str, Any]
_MAX_TITLE = 200
_KINDS = (
    ("execute", ("bash", "shell", "exec", "command", "terminal", "run_")),
    ("edit", ("edit", "write", "patch", "replace")),
    ("search", ("grep", "glob", "search", "find", "list_")),
    ("fetch", ("fetch", "web", "http")),
    ("read", ("read", "view", "cat")),
    ("think", ("think", "plan", "todo")),
)
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def text_chunk(text: str, *, message_id: str = "", kind: str = "agent_message_chunk") -> Members:
    """Return a piece of text of the agent; `kind`: agent_message_chunk, agent_thought_chunk or user_message_chunk."""
    chunk: Members = {"sessionUpdate": kind, "content": {"type": "text", "text": remove_terminal_codes(text)}}
    return {**chunk, "messageId": message_id} if message_id else chunk


def file_chunk(file: Members, url: str, *, message_id: str, kind: str) -> Members:
    """Return a link to a file of a message."""
    link: Members = {"type": "resource_link", "name": str(file.get("name") or "file"), "uri": url}
    if isinstance(file.get("mime_type"), str):
        link["mimeType"] = file["mime_type"]
    if isinstance(file.get("size"), int):
        link["size"] = file["size"]
    return {"sessionUpdate": kind, "content": link, "messageId": message_id}


def tool_call(call_id: str, title: str, *, status: str, kind: str = "other", text: str = "") -> Members:
    """Return the beginning of a tool call."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": single_line(title, _MAX_TITLE) or kind,
        "kind": kind,
        "status": status,
        "content": call_content(text),
    }


def tool_call_update(call_id: str, *, status: str, title: str = "", text: str = "") -> Members:
    """Return a change of a tool call."""
    update: Members = {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status}
    if title:
        update["title"] = single_line(title, _MAX_TITLE)
    if text:
        update["content"] = call_content(text)
    return update


def call_content(text: str) -> list[Members]:
    """Return the content of a tool call that shows a text."""
    return [{"type": "content", "content": {"type": "text", "text": remove_terminal_codes(text)}}] if text else []


def tool_kind(tool: str) -> str:
    """Return the kind of a tool by its name, for the icon that the editor shows."""
    name = _WORDS.sub("_", tool).lower()
    return next((kind for kind, words in _KINDS if any(word in name for word in words)), "other")
