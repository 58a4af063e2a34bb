"""Routes of files: uploads, files pending for a polling agent, downloads, previews and limits.

A download is always an attachment, without a type that a browser would render. A preview is an image by its first
bytes, in a sandbox (content security policy).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from urllib.parse import quote

from msgspec import Struct

from molecule_core.access.model import CredentialKind, Role
from molecule_core.api.http.multipart import FilePart, read_form
from molecule_core.api.http.response import Response, StreamedBody
from molecule_core.api.messages.send import sender_of
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    WORKSPACE,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.errors import PreviewUnavailable
from molecule_core.common.limits import Limits
from molecule_core.messages.files.attachments import DEFAULT_MIME_TYPE, IMAGE_HEADER_BYTES, image_type
from molecule_core.messages.files.uploads import FileWriter, Upload, UploadContent, to_file_part

_SANDBOX_POLICY = b"default-src 'none'; frame-ancestors 'none'; sandbox"
# Access to a file may be withdrawn, and a shared computer would keep a cached copy.
_NO_STORE = (b"cache-control", b"private, no-store")
_FILES_FIELD = "files"
_PLAIN_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-()")


UploadCheck = Callable[[Request, Sequence[UploadContent]], Awaitable[None]]
"""Raises ApprovalRequired if files need an approval that the request does not name."""


class UploadedFile(Struct):
    """A stored file. Messages refer to it by its `uri`."""

    uri: str
    name: str
    mimeType: str
    size: int


class UploadResponse(Struct):
    """The files of one upload, in order."""

    files: list[UploadedFile]


class UploadLimits(Struct):
    """Limits of an upload. Sizes in bytes; `keep_hours`: how long a file that no message mentions is kept."""

    max_file_bytes: int
    max_request_bytes: int
    max_attachments: int
    keep_hours: int


class FileRoutes:
    """Routes of files."""

    def __init__(self, files: FileWriter, check_upload: UploadCheck, *, limits: Limits) -> None:
        self._files = files
        self._check_upload = check_upload
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/workspaces/{id}"
        talk = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK, Role.OPERATOR)
        read = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK, Role.VIEWER)
        own_agent = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN)
        pending = f"{one}/pending-uploads/{{file_id}}"
        return [
            Route(
                "POST",
                f"{one}/chat/uploads",
                self.upload_files,
                talk,
                "Upload files",
                response=UploadResponse,
                streams_body=True,
            ),
            Route(
                "GET",
                f"{one}/files/{{file_id}}",
                self.download_file,
                read,
                "Download a file",
                media_type=DEFAULT_MIME_TYPE,
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{one}/files/{{file_id}}/preview",
                self.preview_file,
                read,
                "Get an image for display",
                media_type="image/*",
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{pending}/content",
                self.download_file,
                own_agent,
                "Download a received file",
                media_type=DEFAULT_MIME_TYPE,
            ),
            Route("POST", f"{pending}/ack", self.ack_file, own_agent, "Acknowledge a received file"),
            Route(
                "GET",
                "/uploads/limits",
                self.get_limits,
                AccessPolicy(ALL_CREDENTIALS),
                "Get the upload limits",
                response=UploadLimits,
            ),
        ]

    # -- uploads -------------------------------------------------------------------------------------------------------

    async def upload_files(self, request: Request) -> Response:
        """Store files from fields named `files`. Permission is checked before the first byte is read."""
        if request.body_stream is None:
            raise LookupError("this route does not stream")
        upload = self._files.begin_upload(request.workspace.id, sender_of(request.caller))
        try:
            async with aclosing(read_form(request.header(b"content-type"), request.body_stream, _FILES_FIELD)) as form:
                await _receive_files(upload, form)
            received = await upload.write_to_disk()
            await self._check_upload(request, [each.content for each in received])
            files = await upload.commit()
        finally:
            await upload.abort()
        return json_response({"files": [to_file_part(each) for each in files]})

    async def ack_file(self, request: Request) -> Response:
        """Acknowledge a received file. It can still be read."""
        await self._files.ack_file(request.workspace.id, request.path_param("file_id", "file"))
        return json_response({"acked": True})

    async def get_limits(self, _request: Request) -> Response:
        """Return the upload limits, so that a client can check before it sends."""
        limits = self._limits
        return json_response(
            UploadLimits(limits.attachment_bytes, limits.upload_bytes, limits.attachments, limits.upload_hours)
        )

    # -- downloads -----------------------------------------------------------------------------------------------------

    async def download_file(self, request: Request) -> Response:
        """Return the bytes of a file, to be saved under its name."""
        file, source = await self._files.read_file(
            request.workspace.id, request.path_param("file_id", "file"), _reading_workspace(request)
        )
        headers = ((b"content-disposition", _content_disposition(file.name)), _NO_STORE)
        return Response(b"", 200, headers, DEFAULT_MIME_TYPE.encode(), _SANDBOX_POLICY, StreamedBody(source))

    async def preview_file(self, request: Request) -> Response:
        """Return an image, to be displayed. Its type is read from its first bytes, not taken from the sender."""
        _file, source = await self._files.read_file(
            request.workspace.id, request.path_param("file_id", "file"), _reading_workspace(request)
        )
        try:
            kind = image_type(await source.peek(IMAGE_HEADER_BYTES))
            if kind is None:
                raise PreviewUnavailable
        except BaseException:
            source.close()
            raise
        headers = ((b"content-disposition", b"inline"), _NO_STORE)
        return Response(b"", 200, headers, kind.encode(), _SANDBOX_POLICY, StreamedBody(source))


async def _receive_files(upload: Upload, form: AsyncIterator[FilePart | bytes]) -> None:
    async for found in form:
        if isinstance(found, FilePart):
            await upload.start_file(found.name, found.mime_type)
        else:
            await upload.write(found)


def _reading_workspace(request: Request) -> str | None:
    """Return the workspace that reads, or None for a person or the admin."""
    return request.caller.id if request.caller.kind is CredentialKind.WORKSPACE else None


def _content_disposition(name: str) -> bytes:
    """Return an `attachment` header with the name in both forms of RFC 6266: ASCII for every client, and UTF-8."""
    plain = "".join(each if each in _PLAIN_NAME_CHARS else "_" for each in name)
    return b"attachment; filename=\"%s\"; filename*=UTF-8''%s" % (plain.encode(), quote(name, safe="").encode())
