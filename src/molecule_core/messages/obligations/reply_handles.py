"""Reply handles: a short word that stands with a message and is enough to answer it. Pure.

A handle is the place of a message in its log and a check over all that the answer depends on: `m17-k3f9q`. Nothing
is stored for it. It is looked up in the caller's own log, so that it opens nothing to anybody else; the check keeps a
mistyped or invented one from answering another message. docs/obligations.md.
"""

import hashlib
import re
from typing import NamedTuple

# Crockford's: no i, l, o, u, so that nobody reads a handle aloud wrongly, and none of them is a word.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_CHECK_LENGTH = 5
_HANDLE_PATTERN = re.compile(rf"m([1-9][0-9]{{0,17}})-([{_ALPHABET}]{{{_CHECK_LENGTH}}})")


class ReplyHandle(NamedTuple):
    """A handle in its parts: the number of a message in the log of a workspace, and the check."""

    seq: int
    check: str


def make_handle(org_id: str, sender: str, workspace_id: str, context_id: str | None, activity_id: str, seq: int) -> str:
    """The handle of a message: bound to its organisation, its sender (the id of a workspace; empty for a person), its
    receiver, its thread and itself."""
    bound_text = "\0".join((org_id, sender, workspace_id, context_id or activity_id, activity_id, str(seq)))
    digest = hashlib.blake2b(bound_text.encode(), digest_size=4, person=b"reply-handle").digest()
    number = int.from_bytes(digest, "big")
    check = "".join(_ALPHABET[number >> 5 * position & 31] for position in range(_CHECK_LENGTH))
    return f"m{seq}-{check}"


def parse_handle(handle: str) -> ReplyHandle | None:
    """A handle's parts, also as a model may copy it: with blanks around it, in capitals. None for any other text."""
    found = _HANDLE_PATTERN.fullmatch(handle.strip().lower()) if handle.isascii() else None
    return None if found is None else ReplyHandle(int(found[1]), found[2])
