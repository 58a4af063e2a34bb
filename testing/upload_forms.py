"""Files on their way: forms written by hand, and what becomes of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testing.raw_http import Reply, ask
from testing.running_server import Running, Seat

BOUNDARY = "a-boundary-of-a-test"
FORM = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
Sent = tuple[str, bytes] | tuple[str, bytes, str]


def part(name: str, content: bytes, mime_type: str = "text/plain", *, field: str = "files") -> bytes:
    """One part of a form, as browsers write it."""
    called = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{called}"\r\n'
    return f"{head}Content-Type: {mime_type}\r\n\r\n".encode() + content + b"\r\n"


def end() -> bytes:
    """What ends a form."""
    return f"--{BOUNDARY}--\r\n".encode()


def form(*files: Sent) -> bytes:
    """A whole form."""
    return b"".join(part(*each) for each in files) + end()


async def upload(server: Running, workspace_id: str, token: str, *files: Sent) -> Reply:
    """Sends files to a workspace."""
    path = f"/workspaces/{workspace_id}/chat/uploads"
    return await ask(server.port, "POST", path, form(*files), token=token, headers=FORM)


async def uploaded(server: Running, workspace_id: str, token: str, *files: Sent) -> list[dict[str, Any]]:
    """Sends files that are taken; what the sender is told of them."""
    reply = await upload(server, workspace_id, token, *files)
    assert reply.status == 200, reply
    found: list[dict[str, Any]] = reply.json["files"]
    return found


def place_of(file: dict[str, Any]) -> str:
    """The path at which a file is read, from what its sender was told."""
    uri = str(file["uri"])
    if not uri.startswith("platform-pending:"):
        return uri
    workspace_id, file_id = uri.removeprefix("platform-pending:").split("/")
    return f"/workspaces/{workspace_id}/files/{file_id}"


def id_of(file: dict[str, Any]) -> str:
    """The id of a file."""
    return str(file["uri"]).rpartition("/")[2]


def as_parts(text: str, files: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of a message that mentions files."""
    return [{"kind": "text", "text": text}, *({"kind": "file", "file": each} for each in files)]


async def mention(
    server: Running, target: Seat, token: str, text: str, *files: dict[str, Any], message_id: str | None = None
) -> Reply:
    """A message that mentions files."""
    message = {"role": "user", "parts": as_parts(text, files), "messageId": message_id}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    return await ask(server.port, "POST", f"/workspaces/{target.id}/a2a", body, token=token)


def on_disk(server: Running) -> set[str]:
    """The names of all that lies in the folder of files."""
    folder: Path = server.server.settings.files_folder
    return {each.name for each in folder.iterdir()}
