"""Protocol of models: the request, the events of an answer, and the errors.

A model is shown exactly the model context of a thread as the server returns it, item by item. Implementations are
loaded when needed.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.wire.schemas.threads import ModelContextItem

SCRIPTED_PROVIDER = "scripted"
"""The provider whose model is a file of rules."""


class ToolDefinition(Struct, frozen=True):
    """A tool as shown to a model. `schema`: JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]


class ImageData(Struct, frozen=True):
    """An image. `data`: Base64."""

    mime_type: str
    data: str


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One sampling request.

    `cache_key`: equal for all requests of a thread, for providers that cache prompts by it. `may_call`: whether tools
    may be called this time. `images`: the images that items have read, by the items' ids.
    """

    model: str
    items: Sequence[ModelContextItem]
    tools: Sequence[ToolDefinition] = ()
    effort: str | None = None
    cache_key: str = ""
    may_call: bool = True
    images: Mapping[str, ImageData] = {}


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """A piece of reasoning. `extra`: data that the provider requires back with it."""

    text: str = ""
    extra: dict[str, Any] | None = None


class ModelToolCall(Struct, frozen=True):
    """A complete tool call. `arguments`: JSON as the model wrote it, possibly invalid."""

    call_id: str
    name: str
    arguments: str


class ModelUsage(Struct, frozen=True):
    """Tokens used by a sampling. `estimated`: the provider reported none. `cached`: of the input, from a cache."""

    input: int
    output: int
    estimated: bool = False
    cached: int = 0


class StreamEnd(Struct, frozen=True):
    """End of a complete stream. `reason`: stop, tool_calls, length or content_filter."""

    reason: str


ModelEvent = TextDelta | ReasoningDelta | ModelToolCall | ModelUsage | StreamEnd


class ModelError(Exception):
    """A sampling failed; the text is for people and contains no key.

    `retryable`: a later try may succeed, after `retry_after` seconds if known. `too_long`: the thread does not fit into
    the model.
    """

    def __init__(self, text: str, *, retryable: bool, retry_after: float | None = None, too_long: bool = False) -> None:
        self.text = text
        self.retryable = retryable
        self.retry_after = retry_after
        self.too_long = too_long
        super().__init__(text)


class Model(Protocol):
    """A language model."""

    def sample(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the answer in pieces, with a `StreamEnd` last. Raises ModelError."""

    async def close(self) -> None:
        """Close the connections."""


class ModelUnavailableError(Exception):
    """A model cannot be opened; the text says what to do."""
