"""Attaches instructions to a message, as JSON and as text, for poll, push, streams and channels.

Only the rendered copy for one reader changes, never the stored message. Called by the server's views and the push
dispatcher and by the agent's inbox; calls `wire/schemas/xml.py`.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from molecule_core.wire.schemas import xml

# Only the platform says who sent a message and how to answer it: the same members of a sender are dropped.
PLATFORM_KEYS = frozenset(
    ("instructions", "source", "source_workspace_id", "peer_id", "peer_name", "user_id", "username")
)
"""Members that are dropped from a sender's `params.metadata` and `params.message.metadata`."""
InstructionForm = Literal["full", "compact", "delta"]
InstructionShape = Literal["json", "xml", "both"]


class Instructions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to answer one message. `text` is for models; the other members hold the same for programs.

    `available_tools` are bare names; `reply_via` and `text` use the runtime's tool names. `tokens`: estimated length
    of `text`."""

    reply_via: str
    reply_args: dict[str, str]
    stdout_warning: str
    docs_url: str
    available_tools: tuple[str, ...]
    template: str
    form: InstructionForm
    text: str
    tokens: int
    reply_handle: str = ""
    due_at: str = ""


def instructions_and_body(instructions: Instructions, body: str) -> str:
    """Render instructions and body as one text."""
    return xml.format_block(instructions.text, body)


def with_instructions_in_text(request_body: str, instructions: Instructions, summary: str = "") -> str | None:
    """Return a stored message whose text begins with its instructions, for readers that know no other member.

    All text parts are merged into the first; without any, the summary, which such readers show instead, becomes the
    first part. Other parts stay. Returns None if the body is not a message."""
    members, params, message = _split_layers(request_body)
    if message is None:
        return None
    parts = _decode_parts(message["parts"])
    texts = {position: text for position, part in enumerate(parts) if (text := _part_text(part)) is not None}
    first = min(texts, default=0)
    first_part = _decode_object(parts[first]) if texts else {"kind": Raw(b'"text"')}
    content = "\n".join(texts.values()) if texts else summary
    first_part["text"] = Raw(msgspec.json.encode(instructions_and_body(instructions, content)))
    rest = [part for position, part in enumerate(parts) if position not in texts]
    before = sum(position < first for position in range(len(parts)) if position not in texts)
    rest.insert(before, Raw(msgspec.json.encode(first_part)))
    message["parts"] = Raw(msgspec.json.encode(rest))
    return _join_layers(members, params, message)


def to_push_body(request_body: str, instructions: Instructions | None, *, message_id: str, context_id: str) -> str:
    """Return a stored message as it is pushed to an agent.

    The instructions are in `params.message.metadata`; the parts stay as they are. Members that only the platform may
    write are removed, also from messages that an older version stored. A missing request id becomes `message_id`,
    since agents refuse null; a missing context becomes `context_id`, so that the agent remembers the conversation."""
    members, params, message = _split_layers(request_body)
    if message is None:
        return request_body
    if msgspec.json.decode(members.get("id", Raw(b"null"))) is None:
        members["id"] = Raw(msgspec.json.encode(message_id))
    if "contextId" not in message:
        message["contextId"] = Raw(msgspec.json.encode(context_id))
    metadata = _decode_object(message["metadata"]) if "metadata" in message else {}
    metadata = {
        name: value for name, value in metadata.items() if name not in PLATFORM_KEYS
    }  # control: sender-instructions
    if instructions is not None:
        metadata["instructions"] = Raw(msgspec.json.encode(instructions))
    message["metadata"] = Raw(msgspec.json.encode(metadata))
    return _join_layers(members, params, message)


def _split_layers(request_body: str) -> tuple[dict[str, Raw], dict[str, Raw], dict[str, Raw] | None]:
    """Decode a body, its params and its message, each one level deep. The message is None for other bodies."""
    members = _decode_object(Raw(request_body.encode()))
    params = _decode_object(members["params"]) if "params" in members else {}
    message = _decode_object(params["message"]) if "message" in params else {}
    return members, params, message if "parts" in message else None


def _decode_object(raw: Raw) -> dict[str, Raw]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Raw])
    except msgspec.ValidationError:
        return {}


def _decode_parts(raw: Raw) -> list[Raw]:
    try:
        return msgspec.json.decode(raw, type=list[Raw])
    except msgspec.ValidationError:
        return []


def _part_text(part: Raw) -> str | None:
    """Return the text of a text part, else None."""
    members = _decode_object(part)
    if msgspec.json.decode(members.get("kind", Raw(b"0"))) != "text" or "text" not in members:
        return None
    text = msgspec.json.decode(members["text"])
    return text if isinstance(text, str) else None


def _join_layers(members: dict[str, Raw], params: dict[str, Raw], message: dict[str, Raw]) -> str:
    params["message"] = Raw(msgspec.json.encode(message))
    members["params"] = Raw(msgspec.json.encode(params))
    return msgspec.json.encode(members).decode()


def parse_instructions(value: Any) -> Instructions | None:
    """Return the instructions in a server response, or None if they are absent or of an unknown shape.

    An unknown shape is not an error, so that the message itself is not lost."""
    try:
        return msgspec.convert(value, Instructions)
    except msgspec.ValidationError:
        return None


def include_parameter(*, several: bool) -> str:
    """Return the `include=` value that an agent of this version sends.

    `several`: its process serves several workspaces."""
    return "peer_info,instructions,arrival" if several else "peer_info,instructions"


INSTRUCTION_INCLUDES = ("instructions", "arrival")
"""The values of `include=` that request instructions."""


def parse_includes(words: Sequence[str]) -> tuple[bool, bool]:
    """Return whether `include=` requests instructions, and whether the reader serves several workspaces.

    In the second case instructions must name the workspace to answer as."""
    return INSTRUCTION_INCLUDES[0] in words, INSTRUCTION_INCLUDES[1] in words
