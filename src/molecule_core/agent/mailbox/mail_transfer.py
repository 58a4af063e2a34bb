"""Moves messages between the processes of one workspace: from the leader, which claims them, to the one that asks.

The leader listens on a socket in the state folder. Another process asks for messages over a connection that it keeps. A
message that it takes is its own, with the attempt of the claim; the leader keeps a copy and takes it back when the
process returns it, or when the connection ends before the message was handled. So at every moment one process has it.
"""

import asyncio
import contextlib
import hashlib
import itertools
import logging
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.common.clock import yield_to_others
from molecule_core.wire.schemas.inbox import InboxMessage

_log = logging.getLogger("molecule.agent")
# Bytes of an address that every system accepts (macOS: 104).
_MAX_ADDRESS = 100
# A page of the inbox is far smaller.
_MAX_LINE = 64 << 20
_REDELIVERY = 0


class MailRequest(Struct, omit_defaults=True):
    """A line to the leader: take messages, cancel a request, or return messages."""

    id: int = 0
    take: int = 0
    wait: bool = False
    cancel: bool = False
    returned: list[str] = []


class MailAnswer(Struct):
    """A line of the leader: messages for a request, or for none (`id` 0) when one was delivered again.

    `waiting`: how many more the leader has that its model has not seen."""

    id: int
    messages: list[InboxMessage]
    waiting: int = 0


def socket_path(folder: Path, workspace_id: str) -> Path:
    """Return the address of the leader of a workspace: in the state folder, if that name is short enough."""
    path = folder / f".mcp_mail_{workspace_id}.sock"
    if len(os.fsencode(path)) <= _MAX_ADDRESS:
        return path
    digest = hashlib.blake2b(os.fsencode(path), digest_size=10).hexdigest()
    return Path(tempfile.gettempdir()) / f"molecule-{os.getuid()}" / f"{digest}.sock"


class _Follower:
    """A connected process."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def send(self, answer: MailAnswer) -> None:
        self._writer.write(msgspec.json.encode(answer) + b"\n")


class MailServer:
    """The leader's side for one workspace.

    `on_taken` is called with the ids of messages that another process has now, `on_returned` with messages that are
    ours again.
    """

    def __init__(
        self,
        workspace_id: str,
        inbox: MergedInbox,
        on_taken: Callable[[list[str]], None],
        on_returned: Callable[[list[InboxMessage]], None],
    ) -> None:
        self._workspace_id = workspace_id
        self._inbox = inbox
        self._on_taken = on_taken
        self._on_returned = on_returned
        self._taken: dict[str, tuple[_Follower, InboxMessage]] = {}
        self._waiting: dict[tuple[_Follower, int], int] = {}
        """Requests that wait for messages, in order of arrival, and how many they want."""
        self._server: asyncio.Server | None = None
        self._dispatcher: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def taken_count(self) -> int:
        """Return how many messages other processes have."""
        return len(self._taken)

    async def start(self, path: Path) -> None:
        """Listen. Without a socket, other processes of the workspace get no messages."""
        try:
            listener = _bind_private(path)
        except OSError as error:
            _log.warning("workspace %s: other processes get no messages: %s", self._workspace_id, error)
            return
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=_MAX_LINE)
        self._dispatcher = asyncio.create_task(self._dispatch_changes())

    async def close(self) -> None:
        """Stop listening. Messages that other processes have stay theirs."""
        self._taken.clear()
        tasks = [*self._serving, *filter(None, [self._dispatcher])]
        for task in tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server = self._dispatcher = None

    def redeliver(self, message: InboxMessage) -> bool:
        """Send a message that was delivered again to the process that has it; return False if none has."""
        found = self._taken.get(message.activity_id)
        if found is None:
            return False
        connection, _ = found
        self._taken[message.activity_id] = (connection, message)
        connection.send(MailAnswer(_REDELIVERY, [message]))
        return True

    def forget(self, activity_id: str) -> None:
        """Forget a message that another process has handled."""
        self._taken.pop(activity_id, None)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Follower(writer)
        try:
            with contextlib.suppress(OSError, ValueError):
                while line := await reader.readline():
                    self._handle(connection, msgspec.json.decode(line, type=MailRequest))
                    await writer.drain()
        finally:
            self._waiting = {key: count for key, count in self._waiting.items() if key[0] is not connection}
            self._take_back(connection, [id_ for id_, (owner, _) in self._taken.items() if owner is connection])
            writer.close()

    def _handle(self, connection: _Follower, request: MailRequest) -> None:
        if request.returned:
            self._take_back(connection, request.returned)
        elif request.cancel:
            self._waiting.pop((connection, request.id), None)
        elif request.wait:
            self._waiting[connection, request.id] = request.take
            self._dispatch()
        else:
            self._send_unseen(connection, request.id, request.take)

    def _take_back(self, connection: _Follower, ids: Sequence[str]) -> None:
        owned = [id_ for id_ in ids if self._taken.get(id_, (None,))[0] is connection]
        messages = [self._taken.pop(id_)[1] for id_ in owned]
        if messages:
            self._on_returned(messages)

    async def _dispatch_changes(self) -> None:
        while True:
            await self._inbox.wait_for_change()
            await yield_to_others()  # the host of this process, if it waits, is woken before
            self._dispatch()

    def _dispatch(self) -> None:
        for (connection, number), count in list(self._waiting.items()):
            if self._inbox.find_unknown(self._workspace_id, 1):
                del self._waiting[connection, number]
                self._send_unseen(connection, number, count)

    def _send_unseen(self, connection: _Follower, number: int, count: int) -> None:
        """Send messages that our model has not seen: they belong to the process that asks."""
        messages = [entry.message for entry in self._inbox.find_unknown(self._workspace_id, count)]
        for message in messages:
            self._inbox.take_message((self._workspace_id, message.activity_id))
            self._taken[message.activity_id] = (connection, message)
        if messages:
            self._on_taken([each.activity_id for each in messages])
        rest = self._inbox.find_unknown(self._workspace_id, self._inbox.count_waiting(self._workspace_id))
        connection.send(MailAnswer(number, messages, len(rest)))


def _bind_private(path: Path) -> socket.socket:
    """Bind a socket that only this user can use. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(path.parent)
    path.unlink(missing_ok=True)  # of an earlier leader: we hold the lock
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener


def _check_owner(folder: Path) -> None:
    """Check that no other user made the folder. Raises PermissionError."""
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"the folder {folder} belongs to another user")


class MailClient:
    """The side of a process that does not lead.

    `on_redelivered` is called with messages of ours that were delivered again.
    """

    def __init__(self, on_redelivered: Callable[[list[InboxMessage]], None]) -> None:
        self._on_redelivered = on_redelivered
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._pending: dict[int, asyncio.Future[list[InboxMessage]]] = {}
        self._numbers = itertools.count(1)
        self.waiting_count = 0
        """How many messages the leader had left when it last sent some."""

    @property
    def is_connected(self) -> bool:
        """Return whether the leader gives its messages to this process."""
        return self._writer is not None

    async def connect(self, path: Path) -> None:
        """Connect to the leader. Raises OSError if there is none, or one of an earlier version."""
        _check_owner(path.parent)
        self._reader, self._writer = await asyncio.open_unix_connection(str(path), limit=_MAX_LINE)

    async def read(self) -> None:
        """Read until the leader ends; then nothing is taken any more."""
        try:
            with contextlib.suppress(OSError, ValueError):
                while self._reader is not None and (line := await self._reader.readline()):
                    self._receive(msgspec.json.decode(line, type=MailAnswer))
        finally:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None
        self.waiting_count = 0
        for future in self._pending.values():
            if not future.done():
                future.set_result([])
        self._pending.clear()

    def _receive(self, answer: MailAnswer) -> None:
        if answer.id == _REDELIVERY:
            self._on_redelivered(answer.messages)
            return
        self.waiting_count = answer.waiting
        future = self._pending.pop(answer.id, None)
        if future is not None and not future.done():
            future.set_result(answer.messages)
        else:
            self.return_messages([each.activity_id for each in answer.messages])

    async def request_messages(self, count: int, *, wait: bool) -> list[InboxMessage]:
        """Take messages from the leader; with `wait`, once there is one. Returns none if there is no leader."""
        if self._writer is None:
            return []
        future: asyncio.Future[list[InboxMessage]] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._pending[number] = future
        self._send(MailRequest(number, count, wait))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.return_messages([each.activity_id for each in future.result()])
            else:
                self._send(MailRequest(number, cancel=True))
            raise
        finally:
            self._pending.pop(number, None)

    def return_messages(self, ids: list[str]) -> None:
        """Return messages that no result has shown."""
        if ids:
            self._send(MailRequest(returned=ids))

    def _send(self, request: MailRequest) -> None:
        if self._writer is not None:
            self._writer.write(msgspec.json.encode(request) + b"\n")
