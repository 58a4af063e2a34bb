"""One sampling from its request to entries for the log: tried again when that may help, bounded in time.

Above: driving. Below: the door to models.
"""

import asyncio
import logging
import re
from typing import Any

import msgspec
from msgspec import Struct, field

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.engines.models import (
    Model,
    ModelError,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCall,
    Usage,
)
from molecule_core.agent.engines.names import marked, unmarked
from molecule_core.agent.waiting import pause
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.wire.prompts import tokens_of
from molecule_core.wire.threads import Sight

_log = logging.getLogger("molecule.engine")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
# A provider that says to come back tomorrow has failed for this turn.
_MOST_WAIT = 300.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_SHOWN = 2000


class Answer(Struct, frozen=True, kw_only=True):
    """What a model has answered, whole."""

    text: str = ""
    thought: str = ""
    extra: dict[str, Any] | None = None
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage

    @property
    def tokens(self) -> int:
        """What it has cost."""
        return self.usage.input + self.usage.output


class Sampler:
    """Asks models, so many at a time."""

    def __init__(
        self, *, clock: Clock, ids: Ids, randomness: Randomness, tries: int, seconds: float, parallel: int
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._tries = tries
        self._seconds = seconds
        self._places = asyncio.Semaphore(parallel)

    async def sample(self, model: Model, request: Request) -> Answer:
        """The whole answer. Raises ModelError."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        for number in range(1, self._tries + 1):
            try:
                async with self._places:
                    return await self._once(model, request)
            except ModelError as error:
                wait = max(back_off.next(), error.retry_after or 0.0)
                if not error.retryable or number == self._tries or wait > _MOST_WAIT:
                    raise
                _log.warning("the model failed (%s); trying again in %.1f seconds", error.text, wait)
            await pause(self._clock, wait)
        raise AssertionError("the last try returns or raises")

    async def _once(self, model: Model, request: Request) -> Answer:
        asking = asyncio.ensure_future(_whole(model, request))
        try:
            if not await self._clock.wait(asyncio.wait([asking]), self._seconds):
                raise ModelError(f"the model has not answered within {self._seconds:g} seconds", retryable=True)
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def entries(self, answer: Answer, sight: Sight) -> list[dict[str, Any]]:
        """An answer to what was seen, as it is appended; what it has cost is last."""
        found: list[dict[str, Any]] = []
        if answer.thought or answer.extra:
            found.append({"type": "reasoning", "text": answer.thought, "data": answer.extra})
        if answer.text:
            found.append({"type": "agent_message", "text": answer.text})
        names = {unmarked(each.call_id) for each in sight.items if each.call_id is not None}
        for each in answer.calls:
            name = each.call_id if _ID.fullmatch(each.call_id) and each.call_id not in names else self._name()
            names.add(name)
            call = {"call_id": marked(name, sight.last_ordinal), "tool": each.name}
            found.append({"type": "tool_call", **call, "arguments": _arguments(each.arguments)})
        return [*found, self.usage(answer)]

    def usage(self, answer: Answer) -> dict[str, Any]:
        """What an answer has cost, as it is appended: once."""
        cost = {"input": answer.usage.input, "output": answer.usage.output}
        return {"type": "usage", "record_key": self._ids.new(), **cost}

    def _name(self) -> str:
        return f"call_{self._ids.new().replace('-', '')}"


def _arguments(text: str) -> Any:
    """The arguments of a call; what is no JSON object is shown to the model as what it wrote."""
    try:
        found = _storable(msgspec.json.decode(text or "{}"))
    except (msgspec.DecodeError, RecursionError):
        return {"not_json": text[:_MOST_SHOWN]}
    return found if isinstance(found, dict) else {"not_an_object": text[:_MOST_SHOWN]}


def _storable(value: Any) -> Any:
    """A JSON value, or a text, without what no server keeps: NUL, and halves of characters, which some providers send
    in two pieces. Raises RecursionError."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "")
    if isinstance(value, list):
        return [_storable(each) for each in value]
    if isinstance(value, dict):
        return {_storable(name): _storable(each) for name, each in value.items()}
    return value


async def _whole(model: Model, request: Request) -> Answer:
    text, thought, extra, calls, usage = "", "", dict[str, Any](), list[ToolCall](), Usage(0, 0)
    async for event in model.sample(request):
        match event:
            case TextDelta():
                text += event.text
            case ReasoningDelta():
                thought += event.text
                extra |= event.extra or {}
            case ToolCall():
                calls.append(event)
            case Usage():
                usage = Usage(max(usage.input, event.input), max(usage.output, event.output), event.estimated)
    text, thought, extra = _storable(text), _storable(thought), _storable(extra)
    calls = [ToolCall(*map(_storable, (each.call_id, each.name, each.arguments))) for each in calls]
    if not usage.input and not usage.output:  # a provider that does not say; what is estimated counts too
        seen = sum(each.tokens or tokens_of(len(each.text.encode())) for each in request.items)
        made = sum(len(each.arguments.encode()) for each in calls) + len(text.encode())
        usage = Usage(seen, tokens_of(made), estimated=True)
    return Answer(text=text, thought=thought, extra=extra or None, calls=calls, usage=usage)
