"""Renders the XML around a message that a model reads as text. The only module that writes XML.

For any body, name or agent card the result parses to exactly one `<instructions>` and one `<body>`, and as plain
text it contains neither `<instructions` nor `</body` a second time. Escaping alone does not ensure this: control
characters, lone surrogates and carriage returns need their own treatment.
"""

import re
from collections.abc import Mapping

CHANNEL_ATTRIBUTES = (
    *("kind", "workspace_id", "watching_as", "arrival_workspace_id", "peer_id", "peer_name", "peer_role"),
    *("user_name", "method", "intent", "activity_id", "ts", "attempt", "reply_tool", "reply_handle", "pushes"),
    *("redelivered", "attachments", "delegation_id", "approval_id", "revision", "action_hash"),
)
"""The attributes that a `<channel>` may have, in order. `source` is not among them: the host adds it."""

REPLACEMENT_CHARACTER = "\ufffd"
# All that XML 1.0 cannot represent: control characters, surrogates, two noncharacters. (As a negated set of the allowed
# characters the expression takes a hundred times as long to compile.)
_ILLEGAL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Characters that a model may read as `<`. A numeric reference carries them without looking like a tag.
_LOOKALIKES = re.compile("[\uff1c\ufe64\u2039\u276e\u3008\u27e8\u2329]")
_WHITESPACE_REFERENCES = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", '"': "&quot;"}
_ATTRIBUTE_WHITESPACE = re.compile('[\t\n\r"]')


def replace_illegal(text: str) -> str:
    """Replace illegal characters by U+FFFD and line ends by `\\n`.

    The result is unchanged by an XML parser."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ILLEGAL_CHARACTERS.sub(REPLACEMENT_CHARACTER, text)  # control: illegal-characters


def escape_text(text: str) -> str:
    """Escape a text for use as element content."""
    text = (
        replace_illegal(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )  # control: text-escaping
    return text if text.isascii() else _LOOKALIKES.sub(_numeric_reference, text)  # control: lookalikes-escaped


def quote_attribute(value: str) -> str:
    """Escape and quote a text for use as attribute value.

    Whitespace that a parser would normalize becomes references."""
    plain = (
        _ILLEGAL_CHARACTERS.sub(REPLACEMENT_CHARACTER, value)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    # control: attribute-escaping
    return f'"{_ATTRIBUTE_WHITESPACE.sub(_whitespace_reference, _LOOKALIKES.sub(_numeric_reference, plain))}"'


def format_block(instructions: str, body: str) -> str:
    """Render instructions and body, for hosts that write the outer `<channel>` themselves."""
    return f"<instructions>{escape_text(instructions)}</instructions>\n<body>{escape_text(body)}</body>"


def format_channel(attributes: Mapping[str, str], instructions: str, body: str) -> str:
    """Render the whole `<channel>` element, for hosts that take text as it is.

    Raises ValueError for an attribute outside of CHANNEL_ATTRIBUTES: names must never come from the message."""
    unknown = [name for name in attributes if name not in CHANNEL_ATTRIBUTES]
    if unknown:
        raise ValueError(f"<channel> has no attribute {unknown[0]!r}; wire/schemas/xml.py lists its attributes")
    rendered = "".join(
        f" {name}={quote_attribute(attributes[name])}" for name in CHANNEL_ATTRIBUTES if name in attributes
    )
    return f"<channel{rendered}>\n{format_block(instructions, body)}\n</channel>"


def _numeric_reference(match: "re.Match[str]") -> str:
    return f"&#{ord(match[0])};"


def _whitespace_reference(match: "re.Match[str]") -> str:
    return _WHITESPACE_REFERENCES[match[0]]
