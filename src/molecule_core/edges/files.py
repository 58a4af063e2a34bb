"""Files: uploads, what waits for a polling agent, downloads, previews, limits.

A download is bytes to be saved, whatever it is: it has no type that a browser would act on. A preview is a picture by
its first bytes, and stands in a box of its own.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

from msgspec import Struct

from molecule_core.access.model import Kind, Role
from molecule_core.edges.forms import FileBegins, read_form
from molecule_core.edges.messages import sender_of
from molecule_core.edges.routes import EVERYBODY, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.sending import Sending, new_turns
from molecule_core.ground.errors import NoPreview
from molecule_core.ground.limits import Limits
from molecule_core.messages.attachments import OCTETS, PICTURE_HEAD, picture_type
from molecule_core.messages.filing import FileWriter, Upload, shown

_BOXED = b"default-src 'none'; frame-ancestors 'none'; sandbox"
# Who may see a file may change, and a shared computer keeps what it once got.
_KEPT_BY_NOBODY = (b"cache-control", b"private, no-store")
_PLAIN_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-()")


class UploadedFile(Struct):
    """A file that is kept. Its `uri` names it in messages."""

    uri: str
    name: str
    mimeType: str
    size: int


class Uploaded(Struct):
    """The files of one upload, in order."""

    files: list[UploadedFile]


class UploadLimits(Struct):
    """What an upload may bring. Sizes in bytes; `keep_hours`: how long a file stays that no message mentions."""

    max_file_bytes: int
    max_request_bytes: int
    max_attachments: int
    keep_hours: int


class FileEdge:
    """The routes of files."""

    def __init__(self, files: FileWriter, *, limits: Limits) -> None:
        self._files = files
        self._limits = limits
        self._turns = new_turns()

    def routes(self) -> list[Route]:
        """The rows for the table."""
        one = "/workspaces/{id}"
        talk = Who(EVERYBODY, Reach.TALK, Role.OPERATOR)
        read = Who(EVERYBODY, Reach.TALK, Role.VIEWER)
        own_agent = Who(frozenset((WORKSPACE,)), Reach.OWN)
        pending = f"{one}/pending-uploads/{{file_id}}"
        return [
            Route("POST", f"{one}/chat/uploads", self.upload, talk, "Send files", gives=Uploaded, streams=True),
            Route("GET", f"{one}/files/{{file_id}}", self.download, read, "Get a file", media=OCTETS),
            Route("GET", f"{one}/files/{{file_id}}/preview", self.preview, read, "See a picture", media="image/*"),
            Route("GET", f"{pending}/content", self.download, own_agent, "Get a file that was sent", media=OCTETS),
            Route("POST", f"{pending}/ack", self.ack, own_agent, "Say that a file was taken"),
            Route("GET", "/uploads/limits", self.limits, Who(EVERYBODY), "What may be sent", gives=UploadLimits),
        ]

    # -- in ------------------------------------------------------------------------------------------------------------

    async def upload(self, call: Call) -> Answer:
        """Files in fields named `files`. Whether the caller may send them is known before the first byte is read."""
        upload = self._files.begin(call.target.id, sender_of(call.by))
        try:
            async with aclosing(read_form(call)) as form:
                await _receive(upload, form)
            files = await upload.keep()
        finally:
            await upload.drop()
        return json_answer({"files": [shown(each) for each in files]})

    async def ack(self, call: Call) -> Answer:
        """The agent has the file; it may still be read."""
        await self._files.ack(call.target.id, call.named("file_id", "file"))
        return json_answer({"acked": True})

    async def limits(self, _call: Call) -> Answer:
        """What a client can say before it sends."""
        limits = self._limits
        return json_answer(
            UploadLimits(limits.attachment_bytes, limits.upload_bytes, limits.attachments, limits.upload_hours)
        )

    # -- out -----------------------------------------------------------------------------------------------------------

    async def download(self, call: Call) -> Answer:
        """The bytes of a file, to be saved under its name."""
        file, source = await self._files.read(call.target.id, call.named("file_id", "file"), _reader(call))
        headers = ((b"content-disposition", _disposition(file.name)), _KEPT_BY_NOBODY)
        answer = Answer(b"", 200, headers, OCTETS.encode(), _BOXED)
        return Sending(answer, source, self._turns, patience=self._limits.body_seconds).answer()

    async def preview(self, call: Call) -> Answer:
        """A picture, to be shown. What it is, its first bytes say, and not its sender."""
        _file, source = await self._files.read(call.target.id, call.named("file_id", "file"), _reader(call))
        try:
            kind = picture_type(await source.peek(PICTURE_HEAD))
            if kind is None:
                raise NoPreview
        except BaseException:
            source.close()
            raise
        headers = ((b"content-disposition", b"inline"), _KEPT_BY_NOBODY)
        answer = Answer(b"", 200, headers, kind.encode(), _BOXED)
        return Sending(answer, source, self._turns, patience=self._limits.body_seconds).answer()


async def _receive(upload: Upload, form: AsyncIterator[FileBegins | bytes]) -> None:
    async for found in form:
        if isinstance(found, FileBegins):
            await upload.start(found.name, found.mime_type)
        else:
            await upload.write(found)


def _reader(call: Call) -> str | None:
    """Which workspace reads; None: a person, or the admin."""
    return call.by.id if call.by.kind is Kind.WORKSPACE else None


def _disposition(name: str) -> bytes:
    """`attachment` with the name in both spellings (RFC 6266): letters that every client knows, and all of them."""
    plain = "".join(each if each in _PLAIN_NAME else "_" for each in name)
    return b"attachment; filename=\"%s\"; filename*=UTF-8''%s" % (plain.encode(), quote(name, safe="").encode())
