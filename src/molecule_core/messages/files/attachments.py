"""Files in messages: URIs, resolution of references, access rules. Read-only.

A part may name any URI: ours are resolved, all others are data that is never fetched."""

import re
from collections.abc import Generator, Iterable
from typing import Any

from msgspec import Struct

from molecule_core.common.errors import InvalidMessage
from molecule_core.messages.model import StoredFile
from molecule_core.store.database import ReadQuery, StepRequest
from molecule_core.wire.schemas.activity import display_file_name

_UUID = r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_PENDING_URI = re.compile(f"platform-pending:{_UUID}/{_UUID}")
_FILE_URI = re.compile(f"(https?://[^/?#]+)?/workspaces/{_UUID}/files/{_UUID}")
_MAX_URI_SHOWN = 200
DEFAULT_MIME_TYPE = "application/octet-stream"
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
# The type of an image is detected, since the type that the sender claims is not trusted.
_IMAGE_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
IMAGE_HEADER_BYTES = 16
"""Length of the file head that `image_type` needs."""


class FileReference(Struct, frozen=True):
    """A reference to one of our files. `is_absolute`: by a full URL, which may be another server's."""

    workspace_id: str
    id: str
    is_absolute: bool


class ResolvedParts(Struct, frozen=True):
    """The parts of a message with the stored file metadata filled in, and the ids of these files."""

    parts: list[dict[str, Any]]
    file_ids: list[str]


def file_uri(file: StoredFile) -> str:
    """Return the URI of a file in messages.

    Files announced to polling agents use the scheme that their clients know."""
    if file.activity_id is not None:
        return f"platform-pending:{file.workspace_id}/{file.id}"
    return f"/workspaces/{file.workspace_id}/files/{file.id}"


def declared_mime_type(declared: str | None) -> str:
    """Return the MIME type that the sender claims, if it is well-formed. It is not trusted."""
    text = (declared or "").strip().lower()
    return text if _MIME_TYPE.fullmatch(text) else DEFAULT_MIME_TYPE


def image_type(head: bytes) -> str | None:
    """Return the image type by the first bytes of a file; None for everything else."""
    return next((kind for pattern, kind in _IMAGE_SIGNATURES if pattern.match(head)), None)


def parse_file_uri(uri: Any) -> FileReference | None:
    """Parse a URI as a reference to one of our files; None if it has no such form."""
    if not isinstance(uri, str):
        return None
    if found := _PENDING_URI.fullmatch(uri):
        return FileReference(found[1], found[2], is_absolute=False)
    if found := _FILE_URI.fullmatch(uri):
        return FileReference(found[2], found[3], is_absolute=found[1] is not None)
    return None


def file_keys(parts: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return the keys of a command that mentions files, so that they are not deleted at the same moment."""
    found = (parse_file_uri(part["file"].get("uri")) for part in parts if part["kind"] == "file")
    return tuple(dict.fromkeys(("file", each.id) for each in found if each is not None))


def can_read_file(file: StoredFile, reader_id: str | None, *, was_sent: bool) -> bool:
    """Return whether a workspace of the file's organisation, or a person (None), may read a file.

    People may read all; a workspace its own, its uploads, and files that a message brought it."""
    own_ids = (file.workspace_id, file.uploaded_by.removeprefix("workspace:"))
    return reader_id is None or reader_id in own_ids or was_sent


def resolve_files(
    parts: list[dict[str, Any]], org_id: str, sender_id: str | None
) -> Generator[StepRequest, Any, ResolvedParts]:
    """Check the files that a message names and fill in their stored metadata.

    For foreign files, only the name is sanitized. Raises InvalidMessage for files that the sender may not read. (An
    absolute URL stays data then, even if it looks like one of ours.)"""
    if all(part["kind"] != "file" for part in parts):
        return ResolvedParts(parts, [])
    resolved, file_ids = list[dict[str, Any]](), list[str]()
    for part in parts:
        if part["kind"] != "file":
            resolved.append(part)
            continue
        content = part["file"]
        reference = parse_file_uri(content.get("uri"))
        file = None if reference is None else (yield from _load_file(reference, org_id, sender_id))
        if file is not None:
            metadata: dict[str, Any] = {"name": file.name, "mimeType": file.mime_type, "size": file.size}
            file_ids.append(file.id)
        elif reference is not None and not reference.is_absolute:
            uri = str(content["uri"])[:_MAX_URI_SHOWN]
            raise InvalidMessage(reason=f"the file {uri} was not found, or you have no access to it. Upload it first.")
        else:
            metadata = {"name": display_file_name(content["name"])} if isinstance(content.get("name"), str) else {}
        resolved.append({**part, "file": {**content, **metadata}})
    return ResolvedParts(resolved, list(dict.fromkeys(file_ids)))


def replace_forbidden_files(
    parts: Iterable[dict[str, Any]], org_id: str, sender_id: str
) -> Generator[StepRequest, Any, list[dict[str, Any]]]:
    """Return the parts of a push answer, with files that the agent may not send replaced by the reason."""
    allowed = list[dict[str, Any]]()
    for part in parts:
        try:
            yield from resolve_files([part], org_id, sender_id)
        except InvalidMessage as error:
            allowed.append({"kind": "text", "text": error.text})
        else:
            allowed.append(part)
    return allowed


def _load_file(
    reference: FileReference, org_id: str, sender_id: str | None
) -> Generator[StepRequest, Any, StoredFile | None]:
    rows = yield ReadQuery("file", {"id": reference.id, "reader_id": sender_id or ""})
    if not rows:
        return None
    file, was_sent = StoredFile(*rows[0][:-1]), bool(rows[0][-1])
    is_ours = (file.org_id, file.workspace_id) == (org_id, reference.workspace_id)
    return file if is_ours and can_read_file(file, sender_id, was_sent=was_sent) else None
