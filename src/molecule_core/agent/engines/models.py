"""The door to models: what a model is shown, what comes back, and how it fails.

A model is shown the sight of a thread as the server tells it, item by item, and nothing else. Above: the engine, which
appends what comes back. Below: a library that speaks to providers, or a script; each is loaded when it is wanted.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.wire.schemas.threads import ModelContextItem

SCRIPTED_PROVIDER = "scripted"
"""The provider whose model is a file of rules."""


class ToolDefinition(Struct, frozen=True):
    """A tool as a model sees it; `schema` is JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One sampling. `cache_key`: the same for all requests of a thread, for providers that keep a prompt warm by it;
    `may_call`: whether tools may be called this time."""

    model: str
    items: Sequence[ModelContextItem]
    tools: Sequence[ToolDefinition] = ()
    effort: str | None = None
    cache_key: str = ""
    may_call: bool = True


class TextDelta(Struct, frozen=True):
    """A piece of what the model says."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """A piece of what it thinks. `extra`: what its provider wants to be given back with it."""

    text: str = ""
    extra: dict[str, Any] | None = None


class ModelToolCall(Struct, frozen=True):
    """A whole call of a tool. `arguments` are JSON as the model wrote it: perhaps none."""

    call_id: str
    name: str
    arguments: str


class ModelUsage(Struct, frozen=True):
    """What a sampling has cost in tokens. `estimated`: the provider did not say."""

    input: int
    output: int
    estimated: bool = False


class StreamEnd(Struct, frozen=True):
    """The stream is complete. `reason`: stop, tool_calls, length or content_filter."""

    reason: str


ModelEvent = TextDelta | ReasoningDelta | ModelToolCall | ModelUsage | StreamEnd


class ModelError(Exception):
    """A sampling failed; the text is for people and holds no key. `retryable`: it may work later, after `retry_after`
    seconds if that is known; `too_long`: the thread does not fit into the model."""

    def __init__(self, text: str, *, retryable: bool, retry_after: float | None = None, too_long: bool = False) -> None:
        self.text = text
        self.retryable = retryable
        self.retry_after = retry_after
        self.too_long = too_long
        super().__init__(text)


class Model(Protocol):
    """A model."""

    def sample(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """What it answers, piece by piece, `Finished` last. Raises ModelError."""

    async def close(self) -> None:
        """Lets go of its connections."""


class ModelUnavailableError(Exception):
    """A model cannot be opened; the text says what to do."""
