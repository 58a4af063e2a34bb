"""Reply handles: short codes that are sent with a message and suffice to answer it. Pure.

A handle is the message's position in the log and a check over all that the answer depends on: `m17-k3f9q`. It is not
stored. It is looked up in the caller's own log only, so it gives no access to others; the check keeps mistyped or
invented handles from answering another message. See docs/explanation/obligations.md."""

import hashlib
import re
from typing import NamedTuple

# Crockford's alphabet without i, l, o, u: no misreading, and no handle spells a word.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_CHECK_LENGTH = 5
_HANDLE_PATTERN = re.compile(rf"m([1-9][0-9]{{0,17}})-([{_ALPHABET}]{{{_CHECK_LENGTH}}})")


class ReplyHandle(NamedTuple):
    """A parsed handle: the `seq` of a message in the log of a workspace, and the check."""

    seq: int
    check: str


def make_handle(org_id: str, sender: str, workspace_id: str, context_id: str | None, activity_id: str, seq: int) -> str:
    """Return the handle of a message.

    The check binds it to its organisation, sender (a workspace id; empty for a person), recipient, context and id."""
    bound_text = "\0".join((org_id, sender, workspace_id, context_id or activity_id, activity_id, str(seq)))
    digest = hashlib.blake2b(bound_text.encode(), digest_size=4, person=b"reply-handle").digest()
    number = int.from_bytes(digest, "big")
    check = "".join(_ALPHABET[number >> 5 * position & 31] for position in range(_CHECK_LENGTH))
    return f"m{seq}-{check}"


def parse_handle(handle: str) -> ReplyHandle | None:
    """Parse a handle, also as a model may copy it (spaces around it, capitals); None for other text."""
    found = _HANDLE_PATTERN.fullmatch(handle.strip().lower()) if handle.isascii() else None
    return None if found is None else ReplyHandle(int(found[1]), found[2])
