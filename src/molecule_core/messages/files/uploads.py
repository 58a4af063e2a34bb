"""Writes files: uploads, announcements to polling agents, deletion of unmentioned files.

Bytes are written before the row is committed, and deleted after the row is. A crash in between leaves only bytes
without a row. The next start moves those aside and deletes them after `upload_hours`: if the store was replaced by an
older one, they may be files of the newer one."""

import asyncio
import logging
from collections.abc import Generator
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import (
    CommunicationDenied,
    DiskFull,
    FilesUnavailable,
    FileTooLarge,
    InvalidUpload,
    NotFound,
)
from molecule_core.common.ids import IdGenerator, id_timestamp
from molecule_core.common.limits import Limits
from molecule_core.common.text import sanitize_file_name
from molecule_core.messages import rules
from molecule_core.messages.activities import insert_activity, received_activity
from molecule_core.messages.files.attachments import can_read_file, declared_mime_type, file_uri
from molecule_core.messages.model import UNMENTIONED_FILE_TIMER, Activity, Sender, StoredFile
from molecule_core.messages.storage_usage import count_bytes
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import DeliveryMode, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.blob_store import BlobReader, BlobStore, BlobWriter
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Statement, StepRequest, Store, WriteSet
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.activity import ActivityMethod, Intent, MessageKind

_HOUR = 3600 * SECOND
# Number of ids per lookup during the sweep of the folder.
_SWEEP_BATCH = 500
_DELETE_REMOVED_SECONDS = 3600.0
_log = logging.getLogger("molecule.files")


class UploadContent(Struct, frozen=True):
    """A file of an upload, as an approval shows it."""

    name: str
    mime_type: str
    size: int
    sha256: str


class ReceivedFile(Struct, frozen=True):
    """A file whose bytes were received, with its sender's name and type for it."""

    id: str
    name: str
    mime_type: str
    incoming: BlobWriter

    @property
    def content(self) -> UploadContent:
        """Return what the file is, once it is on disk."""
        return UploadContent(self.name, self.mime_type, self.incoming.size, self.incoming.sha256)


class FileWriter:
    """Receives, reads, acknowledges and deletes files."""

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        org: OrgReader,
        messages: MessageWriter,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._org = org
        self._messages = messages
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def open(self, *, exclusive: bool) -> None:
        """Open the folder and move blobs without a row into its folder of removed files. Raises BadSettings.

        `exclusive`: no other server uses the folder, so everything older than this start is moved; otherwise, what is
        older than any upload lasts."""
        self._blobs.open()
        moved = 0
        cutoff = self._clock.now() - (0 if exclusive else self._limits.upload_hours * _HOUR)
        ids = [each for each in await self._blobs.list_ids() if id_timestamp(each) < cutoff]
        for first in range(0, len(ids), _SWEEP_BATCH):
            batch = ids[first : first + _SWEEP_BATCH]
            queries: list[Params] = [{"id": each, "reader_id": ""} for each in batch]
            known = await self._store.rows_of_each("file", queries)
            for file_id, rows in zip(batch, known, strict=True):
                if not rows:
                    moved += await self._blobs.set_aside(file_id, self._clock.now())
        if moved:
            _log.warning(
                "files that no row of the store names were moved to %s: %d; they are deleted after %d hours",
                self._blobs.removed_folder,
                moved,
                self._limits.upload_hours,
            )

    async def delete_removed_periodically(self, closing: asyncio.Event) -> None:
        """Delete, once an hour, the files that were moved aside more than `upload_hours` ago."""
        while not closing.is_set():
            try:
                deleted = await self._blobs.delete_removed(self._clock.now() - self._limits.upload_hours * _HOUR)
            except (DiskFull, FilesUnavailable):
                deleted = 0  # the disk's error is in the log; the next hour tries again
            if deleted:
                _log.info("files that no row of the store names were deleted: %d", deleted)
            await self._clock.wait(closing.wait(), _DELETE_REMOVED_SECONDS)

    def close(self) -> None:
        """Finish pending blob operations."""
        self._blobs.close()

    # -- uploads -------------------------------------------------------------------------------------------------------

    def begin_upload(self, workspace_id: str, sender: Sender, *, is_announced: bool = True) -> "Upload":
        """Begin an upload to a workspace. `is_announced`: a polling agent gets a message about files of others.

        Raises NotFound, WorkspaceRemoved, CommunicationDenied."""
        self._check_may_upload(workspace_id, sender)
        return Upload(self, self._blobs, self._ids, workspace_id, sender, self._limits, is_announced=is_announced)

    def _check_may_upload(self, workspace_id: str, sender: Sender) -> None:
        target = self._org.active_workspace(workspace_id)
        if sender.workspace_id is not None and not may_talk(
            self._org, self._org.active_workspace(sender.workspace_id), target
        ):
            raise CommunicationDenied

    async def save_files(
        self, workspace_id: str, sender: Sender, received: list[ReceivedFile], *, is_announced: bool
    ) -> list[StoredFile]:
        """Save files whose bytes are on disk, all or none. `is_announced`: a polling agent gets a message about files
        of others.

        Raises NotFound, WorkspaceRemoved, CommunicationDenied, InboxFull, StorageFull."""
        target = self._org.active_workspace(workspace_id)

        def decide() -> CommandSteps[list[StoredFile]]:
            self._check_may_upload(workspace_id, sender)
            is_notified = (
                is_announced and target.delivery_mode == DeliveryMode.POLL and sender.workspace_id != workspace_id
            )
            size = sum(each.incoming.size for each in received)
            yield from self._messages.quota.check_files(target.org_id, workspace_id, size)
            files, written = list[StoredFile](), WriteSet(None, notify=(TIMERS_KEY,))
            for each in received:
                now = self._clock.now()
                file = StoredFile(
                    id=each.id,
                    org_id=target.org_id,
                    workspace_id=workspace_id,
                    uploaded_by=sender.key,
                    name=each.name,
                    mime_type=each.mime_type,
                    size=each.incoming.size,
                    sha256=each.incoming.sha256,
                    activity_id=self._ids.new() if is_notified else None,
                    created_at=now,
                )
                if is_notified:
                    written += insert_activity((yield from self._upload_activity(target, file, sender)))
                due = now + self._limits.upload_hours * _HOUR
                timer_write = set_timer(UNMENTIONED_FILE_TIMER, f"{target.org_id}/{file.id}", due)
                written += WriteSet(None, [("insert_file", file), timer_write])
                files.append(file)
            counted = WriteSet(files, [count_bytes(target.org_id, workspace_id, files=size)])
            return written.returning(files) + counted

        return await self._store.run(Command(target.org_id, (), decide))

    def _upload_activity(
        self, target: Workspace, file: StoredFile, sender: Sender
    ) -> Generator[StepRequest, Any, Activity]:
        """Build the row that announces a file to a polling agent before any message mentions it."""
        inbound_no = yield from self._messages.reserve_inbound_no(target.id)
        return (
            yield from received_activity(
                target,
                file.activity_id or file.id,
                file.created_at,
                sender,
                file.name,
                _upload_body(file, sender),
                inbound_no=inbound_no,
                method=ActivityMethod.UPLOAD,
                kind=MessageKind.UPLOAD,
                intent=Intent.INFORM,
                context_id=file.id,
            )
        )

    # -- downloads -----------------------------------------------------------------------------------------------------

    async def read_file(self, workspace_id: str, file_id: str, reader_id: str | None) -> tuple[StoredFile, BlobReader]:
        """Return a file and a reader of its bytes, for a workspace or (None) a person of its organisation.

        Raises NotFound, equally for missing files and files without access."""
        rows = await self._store.rows("file", {"id": file_id, "reader_id": reader_id or ""})
        file = StoredFile(*rows[0][:-1]) if rows else None
        if file is None or file.workspace_id != workspace_id:
            raise NotFound(what="file")
        if not can_read_file(file, reader_id, was_sent=bool(rows[0][-1])):
            raise NotFound(what="file")
        return file, await self._blobs.open_reader(file.id, file.size)

    async def ack_file(self, workspace_id: str, file_id: str) -> None:
        """Acknowledge a file that was announced to the workspace; repeatable. Raises NotFound, WorkspaceRemoved."""

        def decide() -> CommandSteps[None]:
            rows = yield ReadQuery("file", {"id": file_id, "reader_id": ""})
            file = StoredFile(*rows[0][:-1]) if rows else None
            if file is None or file.workspace_id != workspace_id or file.activity_id is None:
                raise NotFound(what="file")
            if file.acked_at is not None:
                return WriteSet(None)
            return WriteSet(None, [("ack_file", {"id": file_id, "acked_at": self._clock.now()})])

        await self._store.run(Command(self._org.active_workspace(workspace_id).org_id, (("file", file_id),), decide))

    # -- deletion ------------------------------------------------------------------------------------------------------

    async def delete_if_unmentioned(self, key: str) -> None:
        """Delete a file that no message mentions by the end of its upload time."""
        org_id, file_id = key.split("/")

        def decide() -> CommandSteps[bool]:
            mentions = yield ReadQuery("file_is_mentioned", {"file_id": file_id})
            timer_cancel = cancel_timer(UNMENTIONED_FILE_TIMER, key)
            if mentions:
                return WriteSet(False, [timer_cancel])
            rows = yield ReadQuery("file", {"id": file_id, "reader_id": ""})
            counts: list[Statement] = []
            if rows:
                file = StoredFile(*rows[0][:-1])
                counts.append(count_bytes(file.org_id, file.workspace_id, files=-file.size))
                counts.append(("forget_empty_usage", {"org_id": file.org_id, "workspace_id": file.workspace_id}))
            return WriteSet(True, [timer_cancel, ("delete_file", {"id": file_id}), *counts])

        if await self._store.run(Command(org_id, (("file", file_id),), decide)):
            await self._blobs.remove(file_id)


class Upload:
    """The files of one upload request; all of them are kept, or none."""

    def __init__(
        self,
        files: FileWriter,
        blobs: BlobStore,
        ids: IdGenerator,
        workspace_id: str,
        sender: Sender,
        limits: Limits,
        *,
        is_announced: bool,
    ) -> None:
        self._files = files
        self._is_announced = is_announced
        self._blobs = blobs
        self._ids = ids
        self._workspace_id = workspace_id
        self._sender = sender
        self._limits = limits
        self._received: list[ReceivedFile] = []

    async def start_file(self, name: str, mime_type: str | None) -> None:
        """Begin the next file. Raises InvalidUpload, DiskFull, FilesUnavailable."""
        if len(self._received) >= self._limits.attachments:
            raise InvalidUpload(reason=f"it has more than {self._limits.attachments} files")
        file_id = self._ids.new()
        cleaned = sanitize_file_name(name, self._limits.file_name_bytes)
        incoming = await self._blobs.open_writer(file_id)
        self._received.append(ReceivedFile(file_id, cleaned, declared_mime_type(mime_type), incoming))

    async def write(self, data: bytes) -> None:
        """Append data to the current file. Raises FileTooLarge, DiskFull, FilesUnavailable."""
        incoming = self._received[-1].incoming
        if incoming.size + len(data) > self._limits.attachment_bytes:
            raise FileTooLarge(limit=self._limits.attachment_bytes)
        await incoming.write(data)

    async def write_to_disk(self) -> list[ReceivedFile]:
        """Write the received files to disk, and return them. Raises InvalidUpload, DiskFull, FilesUnavailable."""
        if not self._received:
            raise InvalidUpload(reason="it has no file")
        for each in self._received:
            await each.incoming.commit()  # control: file-before-row
        return list(self._received)

    async def commit(self) -> list[StoredFile]:
        """Save the files that are on disk. Raises the errors of `save_files`."""
        received, self._received = self._received, []
        try:
            return await self._files.save_files(
                self._workspace_id, self._sender, received, is_announced=self._is_announced
            )
        except rules.NO_EFFECT_ERRORS:  # after any other error the rows may exist: their bytes must stay
            self._received = received
            raise

    async def abort(self) -> None:
        """Discard all files that were not saved."""
        received, self._received = self._received, []
        if received:
            aborting = asyncio.gather(*(each.incoming.discard() for each in received), return_exceptions=True)
            await asyncio.shield(aborting)  # the caller may be cancelled, but the removal must finish


def to_file_part(file: StoredFile) -> dict[str, Any]:
    """Return a file as part of a message, which is also its uploader's response."""
    return {"uri": file_uri(file), "name": file.name, "mimeType": file.mime_type, "size": file.size}


def _upload_body(file: StoredFile, sender: Sender) -> bytes:
    """Build the body of an announcement: a message with one part, and members that older runtimes read."""
    part = {"kind": "file", "file": to_file_part(file)}
    metadata = {"kind": MessageKind.UPLOAD, "intent": Intent.INFORM}
    message = {"kind": "message", "role": "user", "messageId": file.activity_id, "parts": [part], "metadata": metadata}
    params = {"message": message, "metadata": rules.identity_of(sender)}
    return msgspec.json.encode(
        {"method": ActivityMethod.UPLOAD, "params": params, "file_id": file.id, **to_file_part(file)}
    )
