"""Stores files whose bytes are in a message part (`bytes`), so that its reader gets the address of a file.

Called by the route of A2A messages and by the recorder of push answers."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

from molecule_core.common.errors import InvalidMessage
from molecule_core.messages.files.uploads import FileWriter, Upload, to_file_part
from molecule_core.messages.model import Sender
from molecule_core.messages.rules import INLINE_SHA256

_DEFAULT_NAME = "file"


def has_inline_files(parts: Sequence[dict[str, Any]]) -> bool:
    """Return whether a part of a message holds the bytes of a file."""
    return any(_inline_bytes(part) is not None for part in parts)


async def store_inline_files(
    files: FileWriter, workspace_id: str, sender: Sender, parts: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the parts with each inline file stored, all or none. The message announces them, so nothing else does.

    `workspace_id`: whose files they become. Raises InvalidMessage, and the errors of an upload."""
    upload = files.begin_upload(workspace_id, sender, is_announced=False)
    try:
        hashes = [await _receive(upload, part["file"]) for part in parts if _inline_bytes(part) is not None]
        await upload.write_to_disk()
        stored = iter(zip(await upload.commit(), hashes, strict=True))
    except BaseException:
        await upload.abort()
        raise
    result = []
    for part in parts:
        if _inline_bytes(part) is None:
            result.append(part)
            continue
        file, digest = next(stored)
        result.append({**part, "file": {**to_file_part(file), INLINE_SHA256: digest}})
    return result


async def _receive(upload: Upload, file: dict[str, Any]) -> str:
    name, mime_type = file.get("name"), file.get("mimeType")
    try:
        data = base64.b64decode(file["bytes"].encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise InvalidMessage(reason="the bytes of a file part are not valid. Send them in Base64.") from None
    await upload.start_file(
        name if isinstance(name, str) and name else _DEFAULT_NAME, mime_type if isinstance(mime_type, str) else None
    )
    await upload.write(data)
    return hashlib.sha256(data).hexdigest()


def _inline_bytes(part: dict[str, Any]) -> str | None:
    file = part.get("file") if part["kind"] == "file" else None
    data = file.get("bytes") if isinstance(file, dict) else None
    return data if isinstance(data, str) else None
