"""Calls models of any provider through any-llm (optional extra `models`), which is loaded only when a model is opened.

The library's own retries are disabled: the engine decides when to retry.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec.structs import replace

from molecule_core.agent.engines.chat_encoding import INCOMING_TOOL, to_chat_messages
from molecule_core.agent.engines.models import (
    ModelError,
    ModelEvent,
    ModelRequest,
    ModelToolCall,
    ModelUnavailableError,
    ModelUsage,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
)
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.extras import install_advice
from molecule_core.common.logs import redact, register_secret

_log = logging.getLogger("molecule.engine")
_INSTALL = install_advice("models")
# These cache the prompt up to the last message only if a request asks for it.
_CACHE_CONTROL_PROVIDERS = ("anthropic", "azureanthropic", "vertexaianthropic")
# The same providers require a length limit for answers; all their models allow this one.
_DEFAULT_MAX_TOKENS = 8192
_INCOMING_DESCRIPTION = "Messages of other agents arrive as results of this tool. It cannot be called."
_SERVER_ERROR, _TIMEOUT, _CONFLICT, _TOO_MANY = 500, 408, 409, 429
_SECONDS = re.compile(r"\d+(\.\d+)?")


class AnyLlmModel:
    """Models of one provider. (A `Model`.)"""

    def __init__(
        self,
        provider: str,
        *,
        key: str | None = None,
        base_url: str | None = None,
        max_output_tokens: int | None = None,
    ) -> None:
        """Open a client of the provider. Raises ModelUnavailableError."""
        self._provider = provider.lower()
        self._max_output_tokens = max_output_tokens
        self._without_images: set[str] = set()
        """Models that have refused images."""
        self._library = _load_library()
        self._client = _open_client(self._library, self._provider, key, base_url)
        api_key = getattr(getattr(self._client, "client", None), "api_key", None)
        # possibly found by the library in the provider's own environment variable
        if isinstance(api_key, str) and api_key:
            register_secret(api_key)

    async def sample(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the model's answer in pieces. Raises ModelError.

        A model that refuses a request with images gets it without them, and no images from then on."""
        if request.model in self._without_images:
            request = replace(request, images={})
        has_begun = False
        try:
            async for event in self._sample_once(request):
                has_begun = True
                yield event
            return
        except ModelError as error:
            if not request.images or has_begun or error.retryable or error.too_long:
                raise
            _log.warning("model %s gets no images: %s", request.model, error.text)
        self._without_images.add(request.model)
        async for event in self._sample_once(replace(request, images={})):
            yield event

    async def _sample_once(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        calls = _CallBuilder()
        reason = ""
        try:
            stream = await self._client.acompletion(**self._request_params(request))
            async for chunk in stream:
                for choice in chunk.choices:
                    for event in calls.add_delta(choice.delta):
                        yield event
                    reason = choice.finish_reason or reason
                if chunk.usage is not None:
                    used, details = chunk.usage, chunk.usage.prompt_tokens_details
                    cached = 0 if details is None else details.cached_tokens or 0
                    yield ModelUsage(used.prompt_tokens or 0, used.completion_tokens or 0, cached=cached)
        except self._library.exceptions.AnyLLMError as error:
            raise _to_model_error(error) from None
        except Exception as error:  # invalid requests and unreadable answers are raised without wrapping
            raise ModelError(_error_text(error), retryable=False) from None
        for call in calls.complete_calls():
            yield call
        if not reason:
            raise ModelError("the model's answer is incomplete", retryable=True)
        yield StreamEnd(reason)

    def _request_params(self, request: ModelRequest) -> dict[str, Any]:
        params: dict[str, Any] = {
            "model": request.model,
            "messages": to_chat_messages(request.items, request.images),
            "stream": True,
            "max_tokens": self._max_output_tokens,
            "reasoning_effort": request.effort or "auto",
        }
        tools = [_tool_definition(each.name, each.description, each.schema) for each in request.tools]
        has_calls = any(each.get("tool_calls") for each in params["messages"])
        if tools or has_calls:  # Anthropic refuses results of tools in a request without any tool
            params["tools"] = tools or [_tool_definition(INCOMING_TOOL, _INCOMING_DESCRIPTION, {"type": "object"})]
            params["tool_choice"] = None if tools and request.may_call else "none"
        if self._client.PROMPT_CACHE_KEY_SUPPORT != "unsupported" and request.cache_key:
            params["prompt_cache_key"] = request.cache_key
        if self._provider in _CACHE_CONTROL_PROVIDERS:
            params["max_tokens"] = self._max_output_tokens or _DEFAULT_MAX_TOKENS
            params["extra_body"] = {"cache_control": {"type": "ephemeral"}}
        else:
            params["stream_options"] = {"include_usage": True}
        return {name: value for name, value in params.items() if value is not None}

    async def close(self) -> None:
        """Close the connections."""
        close: Callable[[], Any] | None = getattr(getattr(self._client, "client", None), "close", None)
        if close is not None:
            await close()


def _load_library() -> Any:
    try:
        import any_llm
    except ImportError:
        raise ModelUnavailableError(f"models of providers need a library that is not installed; {_INSTALL}") from None
    return any_llm


def _open_client(library: Any, provider: str, key: str | None, base_url: str | None) -> Any:
    errors = library.exceptions
    try:
        return _create_client(library, provider, key, base_url)
    except errors.MissingApiKeyError as error:
        raise ModelUnavailableError(
            f"{sanitize_line(redact(str(error)), 300)}. Or set api_key_env to another variable"
        ) from None
    except errors.UnsupportedProviderError:
        raise ModelUnavailableError(
            f"provider {sanitize_line(provider)!r} not found; for a server with an OpenAI-compatible API, set base_url"
        ) from None
    except errors.AnyLLMError as error:  # an invalid URL, or a setting that this provider also requires
        raise ModelUnavailableError(
            f"provider {sanitize_line(provider)} is not configured correctly: {_error_text(error)}"
        ) from None
    except ImportError as error:
        raise ModelUnavailableError(
            f"provider {provider} needs libraries that are not installed: {sanitize_line(str(error), 300)}"
        ) from None


def _create_client(library: Any, provider: str, key: str | None, base_url: str | None) -> Any:
    errors = library.exceptions
    options: dict[str, Any] = {"api_key": key, "api_base": base_url, "unified_exceptions": True}
    try:
        return library.AnyLLM.create(provider, **options, max_retries=0)
    except errors.UnsupportedParameterError:  # its client has no retries of its own
        return library.AnyLLM.create(provider, **options)
    except errors.UnsupportedProviderError:
        if base_url is None:
            raise
        return library.AnyLLM.create_openai_compatible(provider, base_url, key, unified_exceptions=True, max_retries=0)


def _tool_definition(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


class _CallBuilder:
    """Assembler of tool calls from the deltas of a stream."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[str]] = {}

    def add_delta(self, delta: Any) -> list[ModelEvent]:
        """Add the calls of a delta; return its other events."""
        events: list[ModelEvent] = []
        if delta.reasoning is not None and delta.reasoning.content:
            events.append(ReasoningDelta(delta.reasoning.content))
        if delta.extra_content:
            events.append(ReasoningDelta(extra=delta.extra_content))
        if delta.content:
            events.append(TextDelta(delta.content))
        for each in delta.tool_calls or ():
            piece = self._pieces.setdefault(each.index, ["", "", ""])
            piece[0] = each.id or piece[0]
            if each.function is not None:
                piece[1] = each.function.name or piece[1]
                piece[2] += each.function.arguments or ""
        return events

    def complete_calls(self) -> list[ModelToolCall]:
        """Return all calls in order."""
        return [ModelToolCall(id_, name, arguments) for _, (id_, name, arguments) in sorted(self._pieces.items())]


def _error_text(error: Exception) -> str:
    """Format an error as one line without credentials."""
    return sanitize_line(redact(f"{type(error).__name__}: {error}"), 500)


def _to_model_error(error: Any) -> ModelError:
    """Convert an error of the library."""
    status, name = error.status_code, type(error).__name__
    retryable = status in (_TIMEOUT, _CONFLICT, _TOO_MANY) or (status or _SERVER_ERROR) >= _SERVER_ERROR
    is_transient_kind = name in ("RateLimitError", "ProviderError", "UpstreamProviderError", "GatewayTimeoutError")
    too_long = name == "ContextLengthExceededError"
    return ModelError(
        _error_text(error),
        retryable=(retryable if status is not None else is_transient_kind) and not too_long,
        retry_after=_parse_seconds(
            getattr(error, "retry_after", None) or _retry_after_header(error.original_exception)
        ),
        too_long=too_long,
    )


def _retry_after_header(original: Any) -> str | None:
    headers = getattr(getattr(original, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    return value if isinstance(value, str) else None


def _parse_seconds(text: str | None) -> float | None:
    """Parse the seconds of `retry-after`; for a date return None, and the engine's own delays apply."""
    return float(text) if text is not None and _SECONDS.fullmatch(text.strip()) else None
