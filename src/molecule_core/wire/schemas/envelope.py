"""A message together with how it is answered: the one builder of both forms, for poll, push, streams and channels.

What is stored never changes; only what one reader is shown does. Above: the projections of the server (edges, pushes)
and the agent's inbox. Below: `markup`, which alone writes XML.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from molecule_core.wire.protocols import xml

InstructionForm = Literal["full", "compact", "delta"]
InstructionShape = Literal["json", "xml", "both"]


class Instructions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to answer one message. `text` is the words; the other members say the same to programs. `available_tools` are
    bare names, `reply_via` and `text` spell tools as the runtime does. `tokens`: what the words cost, about."""

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
    """Instructions and body as one text."""
    return xml.format_block(instructions.text, body)


def with_instructions_in_text(request_body: str, instructions: Instructions, summary: str = "") -> str | None:
    """A stored message whose text says first how to answer it, for readers that know no other member; None if the body
    is no message. Its texts become one, in the place of the first; without any, the summary, which such readers show
    instead, comes first. All else stays as it is."""
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


def with_instructions_metadata(request_body: str, instructions: Instructions | None) -> str:
    """A stored message with its instructions in `params.message.metadata`, as an agent is pushed it; its parts stay as
    they are. A sender's own member of that name is not passed on: only the platform says how to answer."""
    members, params, message = _split_layers(request_body)
    if message is None:
        return request_body
    metadata = _decode_object(message["metadata"]) if "metadata" in message else {}
    if instructions is None and "instructions" not in metadata:
        return request_body
    metadata.pop("instructions", None)  # control: sender-instructions
    if instructions is not None:
        metadata["instructions"] = Raw(msgspec.json.encode(instructions))
    message["metadata"] = Raw(msgspec.json.encode(metadata))
    return _join_layers(members, params, message)


def _split_layers(request_body: str) -> tuple[dict[str, Raw], dict[str, Raw], dict[str, Raw] | None]:
    """A body, its params and its message, each one level deep; no message where the body is something else."""
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
    """The text of a part that is one."""
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
    """The instructions in a member that a server sent; None if there are none, or if they are not what this version
    knows: the message itself must not be lost for that."""
    try:
        return msgspec.convert(value, Instructions)
    except msgspec.ValidationError:
        return None


def include_parameter(*, several: bool) -> str:
    """What an agent of this version asks for with its mail; `several`: its process sits in several workspaces."""
    return "peer_info,instructions,arrival" if several else "peer_info,instructions"


INSTRUCTION_INCLUDES = ("instructions", "arrival")
"""The words of `include=` that ask how to answer."""


def parse_includes(words: Sequence[str]) -> tuple[bool, bool]:
    """Of the words of `include=`: whether instructions are asked for as JSON, and whether the reader's process sits in
    several workspaces, so that an answer must say as which."""
    return INSTRUCTION_INCLUDES[0] in words, INSTRUCTION_INCLUDES[1] in words
