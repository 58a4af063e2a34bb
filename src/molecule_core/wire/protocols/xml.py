"""The one place where XML is written: what stands around a message that a model reads as text.

Whatever a body, a name or a card holds, the result parses to exactly one `<instructions>` and one `<body>`, and read as
plain text neither `<instructions` nor `</body` stands in it a second time. A naive builder breaks on most hostile
texts, and escaping alone on two of five: control characters, lone surrogates and carriage returns need more.

Above: `envelope`, the agent's words. Below: nothing.
"""

import re
from collections.abc import Mapping

CHANNEL_ATTRIBUTES = (
    *("kind", "workspace_id", "watching_as", "arrival_workspace_id", "peer_id", "peer_name", "peer_role"),
    *("user_name", "method", "intent", "activity_id", "ts", "attempt", "reply_tool", "reply_handle", "pushes"),
    *("redelivered", "attachments", "delegation_id", "approval_id", "revision", "action_hash"),
)
"""The attributes that a `<channel>` may have, in their order. `source` is never ours to write: the host adds it."""

REPLACEMENT_CHARACTER = "\ufffd"
# All that XML 1.0 has no way to write: control characters, surrogates, two that are none. (Told the other way round, by
# what it can write, the expression takes a hundred times as long to compile.)
_ILLEGAL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# What a model may take for `<`: legal text, which a numeric reference carries without looking like a tag.
_LOOKALIKES = re.compile("[\uff1c\ufe64\u2039\u276e\u3008\u27e8\u2329]")
_WHITESPACE_REFERENCES = {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", '"': "&quot;"}
_ATTRIBUTE_WHITESPACE = re.compile('[\t\n\r"]')


def replace_illegal(text: str) -> str:
    """A text that XML can carry, and that comes out of a parser as it went in: what is illegal becomes U+FFFD, every
    end of a line one `\\n`."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ILLEGAL_CHARACTERS.sub(REPLACEMENT_CHARACTER, text)  # control: illegal-characters


def escape_text(text: str) -> str:
    """A text as the content of an element."""
    text = (
        replace_illegal(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )  # control: text-escaping
    return text if text.isascii() else _LOOKALIKES.sub(_numeric_reference, text)  # control: lookalikes-escaped


def quote_attribute(value: str) -> str:
    """A text as the value of an attribute, with its quotes: blanks that a parser would change are references."""
    plain = (
        _ILLEGAL_CHARACTERS.sub(REPLACEMENT_CHARACTER, value)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    return f'"{_ATTRIBUTE_WHITESPACE.sub(_whitespace_reference, _LOOKALIKES.sub(_numeric_reference, plain))}"'  # control: attribute-escaping


def format_block(instructions: str, body: str) -> str:
    """What we send where a host writes the outer `<channel>` itself: one instructions, one body."""
    return f"<instructions>{escape_text(instructions)}</instructions>\n<body>{escape_text(body)}</body>"


def format_channel(attributes: Mapping[str, str], instructions: str, body: str) -> str:
    """The whole tag, for hosts that take text as it is. Raises ValueError for an attribute that is not in the list:
    names are chosen by us, never by what somebody sent."""
    unknown = [name for name in attributes if name not in CHANNEL_ATTRIBUTES]
    if unknown:
        raise ValueError(f"<channel> has no attribute {unknown[0]!r}; wire/protocols/xml.py lists those it has")
    written = "".join(
        f" {name}={quote_attribute(attributes[name])}" for name in CHANNEL_ATTRIBUTES if name in attributes
    )
    return f"<channel{written}>\n{format_block(instructions, body)}\n</channel>"


def _numeric_reference(found: "re.Match[str]") -> str:
    return f"&#{ord(found[0])};"


def _whitespace_reference(found: "re.Match[str]") -> str:
    return _WHITESPACE_REFERENCES[found[0]]
