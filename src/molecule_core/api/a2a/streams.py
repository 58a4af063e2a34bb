"""Event streams of A2A tasks: server-sent events, read from the journal, numbered and resumable.

Opened by `api/a2a/routes.py`; reads `views/a2a_tasks.py`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from molecule_core.api.a2a.tool_approvals import add_request
from molecule_core.api.http.response import Channel, Response, event_stream_response
from molecule_core.common.errors import CapacityExceeded, MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.views.a2a_tasks import A2ATaskChanges, TaskCursor
from molecule_core.wire.protocols.a2a_rpc import rpc_result
from molecule_core.wire.protocols.a2a_shapes import (
    A2ALine,
    StatusUpdate,
    StreamEvent,
    render_stream_event,
)

_log = logging.getLogger("molecule.a2a")


class StreamFormat(msgspec.Struct, frozen=True):
    """How a stream writes events. `is_rpc`: each is a response to the request `rpc_id`.

    `extensions`: those that the request names."""

    line: A2ALine
    is_rpc: bool
    rpc_id: str | int | float | None = None
    extensions: frozenset[str] = frozenset()

    def encode(self, task_id: str, seq: int, event: StreamEvent) -> bytes:
        """Return an event as it is sent. Its id resumes the stream behind it."""
        rendered = render_stream_event(add_request(event, self.extensions), self.line)
        data = msgspec.json.encode(rpc_result(self.rpc_id, rendered) if self.is_rpc else rendered)
        return b"id: %b:%d\ndata: %b\n\n" % (task_id.encode(), seq, data)


class StreamRequest(msgspec.Struct, frozen=True):
    """What a stream sends: of which task, for whom, and up to where.

    `has_snapshot`: it begins with the task. `ends_with_turn`: it ends when the task waits for its client too."""

    workspace: Workspace
    caller_key: str
    start: TaskCursor
    format: StreamFormat
    has_snapshot: bool = True
    ends_with_turn: bool = False


class A2AStreams:
    """Open streams of this process."""

    def __init__(self, changes: A2ATaskChanges, *, limits: Limits) -> None:
        self.changes = changes
        self.limits = limits
        self._open = Counter[str]()

    def open(
        self,
        wanted: StreamRequest,
        credential: str,
        revalidate: Callable[[], Awaitable[None]],
        headers: tuple[tuple[bytes, bytes], ...],
    ) -> Response:
        """Return the response that opens a stream. Raises CapacityExceeded.

        `revalidate`: raises once the credential may no longer read it."""
        if self._open[credential] >= self.limits.live_channels:
            raise CapacityExceeded(what="A2A streams of one credential", most=self.limits.live_channels)
        response = event_stream_response(A2AStream(self, wanted, credential, revalidate))
        response.headers = (*response.headers, *headers)
        return response

    def count(self, credential: str, change: int) -> None:
        """Count a stream of a credential as opened or closed."""
        self._open[credential] += change
        if self._open[credential] <= 0:
            del self._open[credential]


class A2AStream:
    """Handler of one stream."""

    def __init__(
        self, streams: A2AStreams, wanted: StreamRequest, credential: str, revalidate: Callable[[], Awaitable[None]]
    ) -> None:
        self._streams = streams
        self._wanted = wanted
        self._credential = credential
        self._revalidate = revalidate
        self._task: asyncio.Task[None] | None = None

    def on_open(self, channel: Channel) -> None:
        """Start to send."""
        self._streams.count(self._credential, 1)
        self._task = asyncio.get_running_loop().create_task(self._run(channel))

    def on_lost(self) -> None:
        """Stop; the connection is gone."""
        self._streams.count(self._credential, -1)
        if self._task is not None:
            self._task.cancel()

    def on_shutdown(self) -> None:
        """End the stream, because the server stops; the client resumes at another process."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, channel: Channel) -> None:
        try:
            await self._send_events(channel)
        except asyncio.CancelledError:
            # Swallowed, as in the live channels: the stack would keep the channel alive.
            pass
        except MoleculeError as error:
            _log.info("an A2A stream ends: %s", error)
        except Exception:
            _log.exception("an A2A stream failed and is closed")
        if not channel.is_closing():
            channel.close_gracefully()

    async def _send_events(self, channel: Channel) -> None:
        wanted = self._wanted
        task, write = wanted.start.task, wanted.format
        if wanted.has_snapshot:
            channel.write(write.encode(task.id, wanted.start.seq, task))
            state = task.status.state
            if state.is_terminal or (wanted.ends_with_turn and state.is_interrupted):
                return
        followed = self._streams.changes.follow(
            wanted.workspace, wanted.caller_key, wanted.start, quiet_seconds=self._streams.limits.live_seconds
        )
        async for found in followed:
            if found is None:
                await self._revalidate()
                channel.write(b": alive\n\n")
            else:
                seq, event = found
                is_last = isinstance(event, StatusUpdate) and self._ends(event)
                if isinstance(event, StatusUpdate) and is_last:
                    event = msgspec.structs.replace(event, is_final=True)
                channel.write(write.encode(task.id, seq, event))
                if is_last:
                    return
            if channel.unread_bytes() > self._streams.limits.subscriber_bytes:
                # A slow reader resumes by the id of the last event that it has read.
                channel.abort()
                return

    def _ends(self, event: StatusUpdate) -> bool:
        state = event.status.state
        return state.is_terminal or (self._wanted.ends_with_turn and state.is_interrupted)
