"""Samples a model and converts the answer to log entries.

Samplings are retried if that may help, and limited in time.
"""

import asyncio
import logging
import re
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.engines.call_ids import to_log_id, to_model_id
from molecule_core.agent.engines.models import (
    Model,
    ModelError,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    ReasoningDelta,
    TextDelta,
)
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.tools.spec import NOT_AN_OBJECT, NOT_JSON
from molecule_core.wire.schemas.prompts import estimate_tokens
from molecule_core.wire.schemas.threads import ModelContext

_log = logging.getLogger("molecule.engine")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
# A longer delay that the provider asks for (such as until tomorrow) is a limit.
_MAX_WAIT_SECONDS = 300.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_SHOWN = 2000


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """A complete answer of a model."""

    text: str = ""
    reasoning: str = ""
    extra: dict[str, Any] | None = None
    calls: list[ModelToolCall] = field(default_factory=list)
    usage: ModelUsage
    model: str = ""

    @property
    def tokens(self) -> int:
        """Return the tokens used."""
        return self.usage.input + self.usage.output


class SamplingObserver(Protocol):
    """Observer of a sampling."""

    def on_text(self, delta: str) -> None:
        """Note a piece of the answer's text."""

    def on_retry(self, reason: str) -> None:
        """Note that the sampling failed and begins again soon."""

    def on_limit(self, reason: str) -> None:
        """Note that a limit of the provider is reached; the sampling begins again when it ends."""


class ModelLimit(Protocol):
    """Limit of a provider, during which models must not be asked."""

    def begin(self, until: int, reason: str) -> None:
        """Begin a limit that ends at a time (Unix milliseconds)."""

    async def wait_until_over(self) -> None:
        """Return when models may be asked."""


class Sampler:
    """Sampler of models, at most `parallel` at a time."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: IdGenerator,
        randomness: Randomness,
        limit: ModelLimit,
        tries: int,
        seconds: float,
        parallel: int,
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._tries = tries
        self._seconds = seconds
        self._slots = asyncio.Semaphore(parallel)

    async def sample(
        self, model: Model, request: ModelRequest, observer: SamplingObserver | None = None
    ) -> ModelAnswer:
        """Return the complete answer. `observer` is called while it comes. Raises ModelError.

        A try that a limit of the provider ended does not count: the next one follows when the limit is over."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        number = 0
        while True:
            await self._limit.wait_until_over()
            number += 1
            try:
                async with self._slots:
                    return await self._sample_once(model, request, observer)
            except ModelError as error:
                wait = max(back_off.next_delay(), error.retry_after or 0.0)
                if error.retryable and wait > _MAX_WAIT_SECONDS:
                    number -= 1
                    self._limit.begin(self._clock.now() // 1000 + round(wait * 1000), error.text)
                    if observer is not None:
                        observer.on_limit(error.text)
                    continue
                if not error.retryable or number == self._tries:
                    raise
                _log.warning("the model failed (%s); retrying in %.1f seconds", error.text, wait)
                if observer is not None:
                    observer.on_retry(error.text)
            await sleep(self._clock, wait)

    async def _sample_once(self, model: Model, request: ModelRequest, observer: SamplingObserver | None) -> ModelAnswer:
        sampling = asyncio.ensure_future(_collect_answer(model, request, observer))
        try:
            if not await self._clock.wait(asyncio.wait([sampling]), self._seconds):
                raise ModelError(f"the model has not answered within {self._seconds:g} seconds", retryable=True)
            return sampling.result()
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)

    def to_entries(self, answer: ModelAnswer, context: ModelContext) -> list[dict[str, Any]]:
        """Convert an answer in `context` to log entries, the usage last."""
        entries: list[dict[str, Any]] = []
        if answer.reasoning or answer.extra:
            entries.append({"type": "reasoning", "text": answer.reasoning, "data": answer.extra})
        if answer.text:
            entries.append({"type": "agent_message", "text": answer.text})
        names = {to_model_id(each.call_id) for each in context.items if each.call_id is not None}
        for each in answer.calls:
            name = each.call_id if _ID.fullmatch(each.call_id) and each.call_id not in names else self._new_call_id()
            names.add(name)
            call = {"call_id": to_log_id(name, context.last_ordinal), "tool": each.name}
            entries.append({"type": "tool_call", **call, "arguments": _parse_arguments(each.arguments)})
        return [*entries, self.usage_entry(answer)]

    def usage_entry(self, answer: ModelAnswer) -> dict[str, Any]:
        """Return the log entry of an answer's usage, with a new record key."""
        used = answer.usage
        cost = {"input": used.input, "output": used.output, "cached": min(used.cached, used.input)}
        return {"type": "usage", "record_key": self._ids.new(), **cost, "model": answer.model or None}

    def _new_call_id(self) -> str:
        return f"call_{self._ids.new().replace('-', '')}"


def _parse_arguments(text: str) -> Any:
    """Parse the arguments of a call; text that is no JSON object is returned for the model to see."""
    try:
        found = _strip_unstorable(msgspec.json.decode(text or "{}"))
    except (msgspec.DecodeError, RecursionError):
        return {NOT_JSON: text[:_MAX_SHOWN]}
    return found if isinstance(found, dict) else {NOT_AN_OBJECT: text[:_MAX_SHOWN]}


def _strip_unstorable(value: Any) -> Any:
    """Remove what the server does not store from a JSON value: NUL and lone surrogates. Raises RecursionError.

    Some providers split a character over two pieces.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "")
    if isinstance(value, list):
        return [_strip_unstorable(each) for each in value]
    if isinstance(value, dict):
        return {_strip_unstorable(name): _strip_unstorable(each) for name, each in value.items()}
    return value


async def _collect_answer(model: Model, request: ModelRequest, observer: SamplingObserver | None) -> ModelAnswer:
    text, reasoning, extra, calls, usage = "", "", dict[str, Any](), list[ModelToolCall](), ModelUsage(0, 0)
    async for event in model.sample(request):
        match event:
            case TextDelta():
                text += event.text
                if observer is not None:
                    observer.on_text(_strip_unstorable(event.text))
            case ReasoningDelta():
                reasoning += event.text
                extra |= event.extra or {}
            case ModelToolCall():
                calls.append(event)
            case ModelUsage():
                usage = ModelUsage(
                    max(usage.input, event.input),
                    max(usage.output, event.output),
                    event.estimated,
                    max(usage.cached, event.cached),
                )
    text, reasoning, extra = _strip_unstorable(text), _strip_unstorable(reasoning), _strip_unstorable(extra)
    calls = [ModelToolCall(*map(_strip_unstorable, (each.call_id, each.name, each.arguments))) for each in calls]
    if not usage.input and not usage.output:  # the provider reported nothing; estimates count too
        input_tokens = sum(each.tokens or estimate_tokens(len(each.text.encode())) for each in request.items)
        output_bytes = sum(len(each.arguments.encode()) for each in calls) + len(text.encode())
        usage = ModelUsage(input_tokens, estimate_tokens(output_bytes), estimated=True)
    return ModelAnswer(
        text=text, reasoning=reasoning, extra=extra or None, calls=calls, usage=usage, model=request.model
    )
