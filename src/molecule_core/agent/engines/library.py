"""Models of any provider, by way of any-llm (optional extra `models`). Loaded when a model is opened, and only here.

Its own retries are off: when to try again is the engine's to say. Above: opening. Below: the library.
"""

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from molecule_core.agent.engines.encoding import messages_of
from molecule_core.agent.engines.models import (
    Finished,
    ModelError,
    ModelEvent,
    NoModel,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCall,
    Usage,
)
from molecule_core.agent.neutral import line
from molecule_core.ground.logs import hide, redact

_INSTALL = "install the extra: pip install 'molecule-core[models]'"
# Of whom the whole prompt up to the last message is kept warm only if a request asks for it.
_ASKS_FOR_CACHE = ("anthropic", "azureanthropic", "vertexaianthropic")
# They want to be told how long an answer may be; all their models can do as much.
_USUAL_MOST = 8192
_TROUBLE, _TIMEOUT, _CONFLICT, _TOO_MANY = 500, 408, 409, 429
_SECONDS = re.compile(r"\d+(\.\d+)?")


class LibraryModel:
    """A provider's models. (A `Model`.)"""

    def __init__(
        self,
        provider: str,
        *,
        key: str | None = None,
        base_url: str | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        """Raises NoModel."""
        self._provider = provider.lower()
        self._most = max_output_tokens
        self._library = _library()
        self._door = _opened(self._library, self._provider, key, base_url)
        found = getattr(getattr(self._door, "client", None), "api_key", None)
        if isinstance(found, str) and found:  # perhaps the library has found it, where the provider's programs have it
            hide(found)

    async def sample(self, request: Request) -> AsyncIterator[ModelEvent]:
        """What the model answers, piece by piece. Raises ModelError."""
        calls = _Calls()
        reason = ""
        try:
            stream = await self._door.acompletion(**self._asked(request))
            async for chunk in stream:
                for choice in chunk.choices:
                    for event in calls.take(choice.delta):
                        yield event
                    reason = choice.finish_reason or reason
                if chunk.usage is not None:
                    yield Usage(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0)
        except self._library.exceptions.AnyLLMError as error:
            raise _failed(error) from None
        except Exception as error:  # what it refuses of a request, or cannot read of an answer, comes as it was raised
            raise ModelError(_told(error), retryable=False) from None
        for call in calls.whole():
            yield call
        if not reason:
            raise ModelError("the model's answer broke off", retryable=True)
        yield Finished(reason)

    def _asked(self, request: Request) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "model": request.model,
            "messages": messages_of(request.items),
            "stream": True,
            "max_tokens": self._most,
            "reasoning_effort": request.effort or "auto",
        }
        if request.tools:
            asked["tools"] = [_tool(each.name, each.description, each.schema) for each in request.tools]
            asked["tool_choice"] = None if request.may_call else "none"
        if self._door.PROMPT_CACHE_KEY_SUPPORT != "unsupported" and request.cache_key:
            asked["prompt_cache_key"] = request.cache_key
        if self._provider in _ASKS_FOR_CACHE:
            asked["max_tokens"] = self._most or _USUAL_MOST
            asked["extra_body"] = {"cache_control": {"type": "ephemeral"}}
        else:
            asked["stream_options"] = {"include_usage": True}
        return {name: value for name, value in asked.items() if value is not None}

    async def close(self) -> None:
        """Lets go of its connections."""
        close: Callable[[], Any] | None = getattr(getattr(self._door, "client", None), "close", None)
        if close is not None:
            await close()


def _library() -> Any:
    try:
        import any_llm
    except ImportError:
        raise NoModel(f"models of providers need a library that is not installed; {_INSTALL}") from None
    return any_llm


def _opened(library: Any, provider: str, key: str | None, base_url: str | None) -> Any:
    kinds = library.exceptions
    try:
        return _door(library, provider, key, base_url)
    except kinds.MissingApiKeyError as error:
        raise NoModel(f"{line(redact(str(error)), 300)}. Or name another variable with api_key_env") from None
    except kinds.UnsupportedProviderError:
        raise NoModel(
            f"no provider is called {line(provider)!r}; a server that speaks like OpenAI's needs base_url"
        ) from None
    except kinds.AnyLLMError as error:  # an address that is none, or more that this provider wants to know
        raise NoModel(f"{line(provider)} cannot be used as it is set: {_told(error)}") from None
    except ImportError as error:
        raise NoModel(f"{provider} needs more than is installed: {line(str(error), 300)}") from None


def _door(library: Any, provider: str, key: str | None, base_url: str | None) -> Any:
    kinds = library.exceptions
    members: dict[str, Any] = {"api_key": key, "api_base": base_url, "unified_exceptions": True}
    try:
        return library.AnyLLM.create(provider, **members, max_retries=0)
    except kinds.UnsupportedParameterError:  # its client never tries again by itself
        return library.AnyLLM.create(provider, **members)
    except kinds.UnsupportedProviderError:
        if base_url is None:
            raise
        return library.AnyLLM.create_openai_compatible(provider, base_url, key, unified_exceptions=True, max_retries=0)


def _tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


class _Calls:
    """Calls of tools, put together from their pieces."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[str]] = {}

    def take(self, delta: Any) -> list[ModelEvent]:
        """What a piece of the stream says beside calls."""
        told: list[ModelEvent] = []
        if delta.reasoning is not None and delta.reasoning.content:
            told.append(ReasoningDelta(delta.reasoning.content))
        if delta.extra_content:
            told.append(ReasoningDelta(extra=delta.extra_content))
        if delta.content:
            told.append(TextDelta(delta.content))
        for each in delta.tool_calls or ():
            known = self._pieces.setdefault(each.index, ["", "", ""])
            known[0] = each.id or known[0]
            if each.function is not None:
                known[1] = each.function.name or known[1]
                known[2] += each.function.arguments or ""
        return told

    def whole(self) -> list[ToolCall]:
        """All of them, in their order."""
        return [ToolCall(id_, name, arguments) for _, (id_, name, arguments) in sorted(self._pieces.items())]


def _told(error: Exception) -> str:
    """An error as one line without credentials."""
    return line(redact(f"{type(error).__name__}: {error}"), 500)


def _failed(error: Any) -> ModelError:
    """What an error of the library means for the engine."""
    status, name = error.status_code, type(error).__name__
    retryable = status in (_TIMEOUT, _CONFLICT, _TOO_MANY) or (status or _TROUBLE) >= _TROUBLE
    known = name in ("RateLimitError", "ProviderError", "UpstreamProviderError", "GatewayTimeoutError")
    too_long = name == "ContextLengthExceededError"
    return ModelError(
        _told(error),
        retryable=(retryable if status is not None else known) and not too_long,
        retry_after=_seconds(getattr(error, "retry_after", None) or _header(error.original_exception)),
        too_long=too_long,
    )


def _header(original: Any) -> str | None:
    headers = getattr(getattr(original, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    return value if isinstance(value, str) else None


def _seconds(text: str | None) -> float | None:
    """How long a provider says to wait; a date is not understood, and the engine's own waits count."""
    return float(text) if text is not None and _SECONDS.fullmatch(text.strip()) else None
