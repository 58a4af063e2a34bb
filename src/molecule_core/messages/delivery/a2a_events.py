"""Reads the events of an A2A agent's stream. Used by a2a_delivery, which opens streams, and by a2a_follower."""

from molecule_core.common.errors import FetchFailed, InvalidJson, JsonTooDeep
from molecule_core.common.net.safe_fetch import FetchStream
from molecule_core.wire.protocols import strict_json
from molecule_core.wire.protocols.a2a_call import A2AAnswer, SseDecoder, StreamedTask

_OK = 200
_EVENT_STREAM = "text/event-stream"


class A2AEvents:
    """The events of one stream, as the task that they describe. It must be closed."""

    def __init__(self, stream: FetchStream, *, max_depth: int) -> None:
        self._stream = stream
        self._decoder = SseDecoder()
        self._task = StreamedTask()
        self._waiting: list[bytes] = []
        self._max_depth = max_depth

    @property
    def is_stream(self) -> bool:
        """Return whether the agent answered with a stream; it may answer with JSON instead, also an error."""
        is_event_stream = self._stream.headers.get("content-type", "").split(";")[0].strip().lower() == _EVENT_STREAM
        return self._stream.status == _OK and is_event_stream

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return self._stream.status

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        return self._stream.headers

    @property
    def answer(self) -> A2AAnswer:
        """Return what the events so far describe."""
        return self._task.answer

    async def next_answer(self) -> A2AAnswer | None:
        """Return what the next event describes, or its error; None at the end. Raises FetchFailed."""
        while not self._waiting:
            chunk = await self._stream.read()
            if not chunk:
                return None
            self._waiting += self._decoder.feed(chunk)
        try:
            value = strict_json.decode(strict_json.repair_text(self._waiting.pop(0)), max_depth=self._max_depth)
        except (InvalidJson, JsonTooDeep) as error:
            raise FetchFailed(
                reason=f"an event of its stream is not usable JSON: {error.text}", sent=True, status=0
            ) from None
        return self._task.apply(value)

    async def read_body(self) -> bytes:
        """Return a response that is no stream. Raises FetchFailed."""
        pieces = []
        while piece := await self._stream.read():
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
