"""Runs read_file and upload_file. Called by the hosts of tools; the network is passed in as a `FileTransfer`."""

import base64
import mimetypes
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from molecule_core.common.text import sanitize_file_name
from molecule_core.tools.mcp_dispatcher import ToolResult
from molecule_core.tools.schemas.files import (
    ReadFileArguments,
    ReadFileResult,
    UploadFileArguments,
    UploadFileResult,
)
from molecule_core.tools.spec import BadArgumentsError, ToolError, unknown_answer_error

TOOL_NAMES = ("read_file", "upload_file")
FILES_FOLDER = "files"
"""Folder of received files, in the state folder of an agent."""
MAX_TEXT_BYTES = 100_000
"""Longest text that one call of read_file returns."""
MAX_IMAGE_BYTES = 3_750_000
"""Largest image that is shown to a model: providers take 5 MB of Base64."""
_MAX_NAME_BYTES = 200
_MAX_SHOWN = 200
_DEFAULT_TYPE = "application/octet-stream"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_URI = re.compile(f"(?:platform-pending:|(?:https?://[^/?#]+)?/workspaces/)({_UUID})/(?:files/)?({_UUID})")
_IMAGE_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)


class FileTransfer(Protocol):
    """Transfers files as one workspace. Raises ToolError, or what its host converts to one."""

    async def download(self, path: str, write: Callable[[bytes], object]) -> str:
        """Call `write` with each piece of a file, and return its name."""

    async def upload(self, path: str, name: str, content: bytes | BinaryIO, mime_type: str) -> Any:
        """Upload one file and return the decoded response."""


class LocalFiles(NamedTuple):
    """The files of an agent's machine. `state`: its state folder. `roots`: folders from which it may upload."""

    state: Path
    roots: tuple[Path, ...]

    @property
    def received(self) -> Path:
        """Return the folder of received files."""
        return self.state / FILES_FOLDER


def local_files(state: Path) -> LocalFiles:
    """Return the local files of an agent: it uploads from the folder in which it was started."""
    state = state.absolute()
    return LocalFiles(state, (Path.cwd(), state / FILES_FOLDER))


async def run(
    transfer: FileTransfer, workspace_id: str, arguments: Struct, local: LocalFiles | None, origin: str = ""
) -> ToolResult:
    """Run a tool. `local`: None where the agent's machine is not this one; `origin`: the server's address for it.

    Raises ToolError."""
    if isinstance(arguments, ReadFileArguments):
        return await _read_file(transfer, arguments, local, origin)
    assert isinstance(arguments, UploadFileArguments)  # `TOOL_NAMES` has no other
    return ToolResult(msgspec.to_builtins(await _upload_file(transfer, workspace_id, arguments, local)))


# -- reading -----------------------------------------------------------------------------------------------------------


class _Head:
    """The beginning of a file, as much as is shown of it, and its size."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self.size = 0
        self._limit = limit

    def add(self, piece: bytes) -> None:
        self.data += piece[: max(0, self._limit - len(self.data))]
        self.size += len(piece)


async def _read_file(
    transfer: FileTransfer, arguments: ReadFileArguments, local: LocalFiles | None, origin: str
) -> ToolResult:
    path = None
    if local is None:
        head = _Head(max(MAX_IMAGE_BYTES, arguments.offset + MAX_TEXT_BYTES))
        name = await transfer.download(download_path(arguments.uri), head.add)
        data, size = bytes(head.data), head.size
    else:
        path = await fetch_file(transfer, arguments.uri, local.received)
        name, size = path.name, path.stat().st_size
        with path.open("rb") as file:
            data = file.read(max(MAX_IMAGE_BYTES, arguments.offset + MAX_TEXT_BYTES))
    image = image_type(data)
    found = ReadFileResult(
        uri=arguments.uri,
        name=name,
        mime_type=image or mimetypes.guess_type(name)[0] or _DEFAULT_TYPE,
        size=size,
        path="" if path is None else str(path),
    )
    if image is not None and size <= MAX_IMAGE_BYTES:
        return _with_image(found, data, image)
    text, next_offset = _text_piece(data, size, arguments)
    if text is not None:
        return _to_result(msgspec.structs.replace(found, text=text, next_offset=next_offset))
    return _to_result(msgspec.structs.replace(found, note=_no_text_note(found, arguments.uri, origin)))


def _with_image(found: ReadFileResult, data: bytes, image: str) -> ToolResult:
    structured = msgspec.to_builtins(found)
    blocks = [
        {"type": "text", "text": msgspec.json.encode(structured).decode()},
        {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": image},
    ]
    return ToolResult(structured, content=blocks)


def _to_result(found: ReadFileResult) -> ToolResult:
    return ToolResult(msgspec.to_builtins(found))


def _no_text_note(found: ReadFileResult, uri: str, origin: str) -> str:
    if found.path:
        return "The file is neither text nor an image that can be shown. Open it at `path`."
    return (
        "The file is neither text nor an image that can be shown, and this connection cannot store it. Download "
        f"{origin}{download_path(uri)} with the token of your workspace."
    )


def _text_piece(data: bytes, size: int, arguments: ReadFileArguments) -> tuple[str | None, int]:
    """Return the requested text and where the next piece begins; None if the file is no text."""
    if b"\x00" in data[:MAX_IMAGE_BYTES]:
        return None, 0
    piece = data[arguments.offset : arguments.offset + MAX_TEXT_BYTES]
    # a character may be cut at either end
    start = next((number for number, byte in enumerate(piece[:4]) if byte & 0xC0 != 0x80), 0) if arguments.offset else 0
    for missing in range(4):
        end = len(piece) - missing
        try:
            text = piece[start:end].decode()
        except UnicodeDecodeError:
            continue
        reached = arguments.offset + end
        return text, reached if reached < size and end > start else 0
    return None, 0


def image_type(data: bytes) -> str | None:
    """Return the image type by the first bytes of a file; None for everything else."""
    return next((kind for pattern, kind in _IMAGE_SIGNATURES if pattern.match(data)), None)


def is_platform_file(uri: Any) -> bool:
    """Return whether a uri names a file of the platform."""
    return isinstance(uri, str) and _URI.fullmatch(uri) is not None


def download_path(uri: str) -> str:
    """Return the path of a file's download. Raises ToolError if the uri names no file of the platform."""
    found = _URI.fullmatch(uri)
    if found is None:
        raise ToolError(
            f"{uri[:_MAX_SHOWN]!r} is not the uri of a platform file. Use the `uri` of an attachment.", "bad_uri"
        )
    return f"/workspaces/{found[1]}/files/{found[2]}"


async def fetch_file(transfer: FileTransfer, uri: str, folder: Path) -> Path:
    """Return the local copy of a file, downloaded if there is none. Raises ToolError, and what the transfer raises."""
    path = download_path(uri)
    target = folder / path.rpartition("/")[2]
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = next((each for each in target.iterdir() if not each.name.endswith(_PARTIAL)), None)
        if known is not None:
            return known
        partial = target / f"{os.getpid()}{_PARTIAL}"
        with partial.open("wb") as file:
            name = await transfer.download(path, file.write)
        final = target / sanitize_file_name(name, _MAX_NAME_BYTES)
        partial.replace(final)
    except OSError as error:
        raise ToolError(f"the file cannot be stored in {folder}: {error.strerror}. Free space there.", "disk") from None
    return final


_PARTIAL = ".partial"

# -- uploading ---------------------------------------------------------------------------------------------------------


async def _upload_file(
    transfer: FileTransfer, workspace_id: str, arguments: UploadFileArguments, local: LocalFiles | None
) -> UploadFileResult:
    if bool(arguments.path) == bool(arguments.text):
        raise BadArgumentsError("upload_file: either path or text must be set, not both. Correct the arguments.")
    route = f"/workspaces/{workspace_id}/chat/uploads"
    if arguments.text:
        name = arguments.name or "file.txt"
        response = await transfer.upload(route, name, arguments.text.encode(errors="replace"), _type_of(name))
    elif local is None:
        raise ToolError("this connection cannot read files of your machine. Set text instead of path.", "no_files")
    else:
        with open_upload(arguments.path, local) as file:
            name = arguments.name or Path(arguments.path).name
            response = await transfer.upload(route, name, file, _type_of(name))
    try:
        found = {**response["files"][0], "workspace_id": workspace_id}
        return msgspec.convert(found, UploadFileResult)
    except (TypeError, KeyError, IndexError, msgspec.ValidationError) as error:
        raise unknown_answer_error(str(error)) from None


def _type_of(name: str) -> str:
    return mimetypes.guess_type(name)[0] or _DEFAULT_TYPE


def open_upload(path: str, local: LocalFiles) -> BinaryIO:
    """Open a file for upload: a regular file in one of the folders from which the agent may upload.

    The state folder holds tokens, so only its received files may be uploaded. Raises ToolError."""
    shown = path[:_MAX_SHOWN]
    try:
        real = (local.roots[0] / Path(path).expanduser()).resolve(strict=True)
        if not _may_upload(real, local):
            folders = ", ".join(map(str, local.roots))
            raise ToolError(f"{shown!r} is outside of the folders for uploads. Use a file in: {folders}.", "bad_path")
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a path"
        raise ToolError(f"{shown!r} cannot be read: {reason}. Use the path of a file.", "bad_path") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ToolError(f"{shown!r} is not a regular file. Use the path of a file.", "bad_path")
    return os.fdopen(handle, "rb")


def _may_upload(real: Path, local: LocalFiles) -> bool:
    if _is_below(real, (local.received,)):
        return True
    return _is_below(real, local.roots) and not _is_below(real, (local.state,))


def _is_below(real: Path, folders: Sequence[Path]) -> bool:
    return any(real.is_relative_to(each.resolve()) for each in folders)
