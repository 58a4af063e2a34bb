"""Files of every kind that a person and an agent send each other: a PDF, an image, 20 MiB and a text."""

import base64
from typing import Any

from testing.running_server import Seat
from testing.waits import PROCESS_START_SECONDS, eventually

PDF = b"%PDF-1.7\n\x00\xff binary"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LARGE = bytes(range(256)) * (20 << 12)
FILES = {"plan.pdf": PDF, "a.png": PNG, "large.bin": LARGE, "notes.txt": "Grüße".encode()}


async def send_files(person: Any, seat: Seat, text: str) -> list[dict[str, Any]]:
    """A person uploads all files, then sends a message that mentions them, as the page does."""
    uploads = [
        await person.upload(f"/workspaces/{seat.id}/chat/uploads", name, data, "application/octet-stream")
        for name, data in FILES.items()
    ]
    files = [each["files"][0] for each in uploads]
    parts = [{"kind": "text", "text": text}, *({"kind": "file", "file": each} for each in files)]
    params = {"message": {"role": "user", "parts": parts}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    await person.post(f"/workspaces/{seat.id}/a2a", body)
    return files


async def sent_back(person: Any, seat: Seat) -> dict[str, bytes]:
    """The files that the agent has sent to the person, once it has sent all."""

    async def look() -> list[dict[str, Any]]:
        page = await person.get(f"/workspaces/{seat.id}/chat-history")
        return [file for each in page["messages"] if each["role"] == "agent" for file in each["attachments"]]

    found = await eventually(look, lambda files: len(files) >= len(FILES), PROCESS_START_SECONDS)
    result: dict[str, bytes] = {}
    for file in found:
        data = bytearray()
        await person.download(file["uri"], data.extend)
        result[file["name"]] = bytes(data)
    return result
