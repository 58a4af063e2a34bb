"""Files in messages: how one of ours is called, what a message may mention, who may read what. Nothing here is written.

A part of a message may name any address: ours are looked up, all others are data that nobody fetches.
"""

import re
from collections.abc import Generator, Iterable
from typing import Any

from msgspec import Struct

from molecule_core.ground.errors import InvalidMessage
from molecule_core.messages.model import StoredFile
from molecule_core.store.database import Read, Step
from molecule_core.wire.activity import shown_name

_ID = r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_PENDING = re.compile(f"platform-pending:{_ID}/{_ID}")
_PLACE = re.compile(f"(https?://[^/?#]+)?/workspaces/{_ID}/files/{_ID}")
_SHOWN = 200
OCTETS = "application/octet-stream"
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
# A picture is what begins like one, whatever its sender says that it is.
_PICTURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
PICTURE_HEAD = 16
"""So many first bytes tell a picture."""


class Named(Struct, frozen=True):
    """A file of ours that a message names. `elsewhere`: by a whole address, which may be another server's."""

    workspace_id: str
    id: str
    elsewhere: bool


class Mentions(Struct, frozen=True):
    """The parts of a message with what is known of the files in them, and which of ours these are."""

    parts: list[dict[str, Any]]
    file_ids: list[str]


def uri_of(file: StoredFile) -> str:
    """How messages name a file. What a polling agent is to fetch has a name that its clients know."""
    if file.activity_id is not None:
        return f"platform-pending:{file.workspace_id}/{file.id}"
    return f"/workspaces/{file.workspace_id}/files/{file.id}"


def claimed_type(given: str | None) -> str:
    """What a sender says that a file is, if it is said in the usual form. Nobody believes it."""
    text = (given or "").strip().lower()
    return text if _TYPE.fullmatch(text) else OCTETS


def picture_type(head: bytes) -> str | None:
    """Which picture a file is by its first bytes; None for everything else."""
    return next((kind for pattern, kind in _PICTURES if pattern.match(head)), None)


def named(uri: Any) -> Named | None:
    """The file of ours that an address names, if it has the form of one."""
    if not isinstance(uri, str):
        return None
    if found := _PENDING.fullmatch(uri):
        return Named(found[1], found[2], elsewhere=False)
    if found := _PLACE.fullmatch(uri):
        return Named(found[2], found[3], elsewhere=found[1] is not None)
    return None


def keys_of(parts: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """What a command that mentions files must not share a group over: a file is not forgotten in the same moment."""
    if _are_words(parts):
        return ()
    found = (named(part["file"].get("uri")) for part in parts if part["kind"] == "file")
    return tuple(dict.fromkeys(("file", each.id) for each in found if each is not None))


def may_read(file: StoredFile, reader_id: str | None, *, was_sent: bool) -> bool:
    """Whether a workspace of the file's organisation, or a person (None), may see a file: persons see all; a workspace
    its own, what it uploaded, and what a message brought it."""
    own = (file.workspace_id, file.uploaded_by.removeprefix("workspace:"))
    return reader_id is None or reader_id in own or was_sent


def looked_up(parts: list[dict[str, Any]], org_id: str, sender_id: str | None) -> Generator[Step, Any, Mentions]:
    """Checks the files of ours that a message names, and writes into its parts what is known of them. Of others, only
    the name is made fit to be shown.

    Raises InvalidMessage: it names one that its sender cannot see. (An address of another server stays data, even if it
    is built like one of ours.)"""
    if _are_words(parts):
        return Mentions(parts, [])
    regular, file_ids = list[dict[str, Any]](), list[str]()
    for part in parts:
        if part["kind"] != "file":
            regular.append(part)
            continue
        content = part["file"]
        wanted = named(content.get("uri"))
        file = None if wanted is None else (yield from _found(wanted, org_id, sender_id))
        if file is not None:
            known: dict[str, Any] = {"name": file.name, "mimeType": file.mime_type, "size": file.size}
            file_ids.append(file.id)
        elif wanted is not None and not wanted.elsewhere:
            uri = str(content["uri"])[:_SHOWN]
            raise InvalidMessage(reason=f"there is no file {uri} that you may send; upload it first")
        else:
            known = {"name": shown_name(content["name"])} if isinstance(content.get("name"), str) else {}
        regular.append({**part, "file": {**content, **known}})
    return Mentions(regular, list(dict.fromkeys(file_ids)))


def sendable(
    parts: Iterable[dict[str, Any]], org_id: str, sender_id: str
) -> Generator[Step, Any, list[dict[str, Any]]]:
    """The parts of an answer to a push. Instead of a file of ours that its agent may not send there is why."""
    kept = list[dict[str, Any]]()
    for part in parts:
        try:
            yield from looked_up([part], org_id, sender_id)
        except InvalidMessage as refusal:
            kept.append({"kind": "text", "text": refusal.text})
        else:
            kept.append(part)
    return kept


def _are_words(parts: list[dict[str, Any]]) -> bool:
    """Whether a message is what most messages are, about which nothing need be looked up."""
    return len(parts) == 1 and parts[0]["kind"] == "text"


def _found(wanted: Named, org_id: str, sender_id: str | None) -> Generator[Step, Any, StoredFile | None]:
    rows = yield Read("file", {"id": wanted.id, "reader_id": sender_id or ""})
    if not rows:
        return None
    file, was_sent = StoredFile(*rows[0][:-1]), bool(rows[0][-1])
    ours = (file.org_id, file.workspace_id) == (org_id, wanted.workspace_id)
    return file if ours and may_read(file, sender_id, was_sent=was_sent) else None
