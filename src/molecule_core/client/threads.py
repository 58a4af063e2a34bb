"""The routes of threads, as an engine and a client of one workspace use them.

What an engine writes has a key, so that each call may be made again when its answer was lost. Above: the engines.
Below: whoever makes the requests; the shapes that both sides speak.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from molecule_core.client.api import ApiClient, NoAnswerError
from molecule_core.wire.schemas.threads import ModelContext, ThreadClaim, TurnResponse, WorkList

T = TypeVar("T")


class AppendResult(Struct, frozen=True):
    """What was appended stands in the log. `stop`: nothing more is taken for this turn, and why."""

    last_ordinal: int = 0
    stop: str | None = None


class _BeginTurnResult(Struct, frozen=True):
    stop: str | None = None


class RawLogEntry(Struct, frozen=True, kw_only=True):
    """A line of a log, with its entry as it stands there."""

    ordinal: int
    type: str
    turn_id: str | None = None
    entry: dict[str, Any] = field(default_factory=dict)


class _LogPage(Struct, frozen=True):
    items: list[RawLogEntry]


class EngineThread(Struct, frozen=True, kw_only=True):
    """As much of a thread as its engine needs."""

    thread_id: str
    base_instructions: str = ""
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None
    closed: bool = False
    turn_id: str | None = None
    tokens_used: int = 0
    tree_tokens_used: int | None = None
    last_ordinal: int = 0


class ThreadsClient:
    """Threads of one workspace. `api`: its client, with the credential of the moment. Everything raises ApiError and
    NoAnswer."""

    def __init__(self, api: Callable[[], ApiClient], workspace_id: str) -> None:
        self._client = api
        self._workspace_path = f"/workspaces/{quote(workspace_id, safe='')}/threads"

    @property
    def _api(self) -> ApiClient:
        return self._client()

    # -- threads -------------------------------------------------------------------------------------------------------

    async def start(self, key: str, **fields: Any) -> EngineThread:
        """A new thread, or the one that was started with this key before."""
        return _convert_response(await self._api.post(self._workspace_path, {**fields, "key": key}), EngineThread)

    async def get(self, thread_id: str) -> EngineThread:
        """A thread, with its base instructions."""
        return _convert_response(await self._api.get(_thread_path(thread_id)), EngineThread)

    async def list_entries(self, thread_id: str, *, after: int = 0, limit: int = 200) -> list[RawLogEntry]:
        """Lines of its log, in order."""
        response = await self._api.get(_thread_path(thread_id, "items"), after=after, limit=limit)
        return _convert_response(response, _LogPage).items

    async def get_model_context(self, thread_id: str) -> ModelContext:
        """What a model sees of it now."""
        return _convert_response(await self._api.get(_thread_path(thread_id, "sight")), ModelContext)

    async def start_turn(self, thread_id: str, content: Any, *, key: str, mode: str = "auto") -> TurnResponse:
        """Something to work on; the same key is one turn."""
        body = {"input": content, "mode": mode, "key": key}
        return _convert_response(await self._api.post(_thread_path(thread_id, "turns"), body), TurnResponse)

    # -- an engine's own -----------------------------------------------------------------------------------------------

    async def find_work(self, owner: str, *, wait: int = 0, include_own: bool = False) -> list[str]:
        """Threads of the workspace in which something is to be done; waits for a first one. `own_too`: also those in
        which an earlier life of this owner has begun a turn."""
        query = {"wait": wait, "owner": owner, "own_too": 1 if include_own else None}
        response = _convert_response(await self._api.get(f"{self._workspace_path}/work", **query), WorkList)
        return list(dict.fromkeys(each.thread_id for each in response.threads))

    async def claim(self, thread_id: str, owner: str) -> ThreadClaim:
        """Takes a thread over from whoever has lost it."""
        return _convert_response(await self._api.post(_thread_path(thread_id, "claim"), {"owner": owner}), ThreadClaim)

    async def release(self, thread_id: str, generation: int) -> None:
        """Gives a thread back."""
        await self._api.post(_thread_path(thread_id, "release"), {"generation": generation})

    async def begin_turn(self, thread_id: str, turn_id: str, generation: int) -> str | None:
        """Begins a turn, or goes on with it: mail and notes that wait are in the log then. Why the server has ended the
        turn instead, if it has."""
        response = await self._api.post(_thread_path(thread_id, "turns", turn_id, "begin"), {"generation": generation})
        return _convert_response(response, _BeginTurnResult).stop

    async def append_entries(
        self,
        thread_id: str,
        turn_id: str,
        generation: int,
        entries: Sequence[dict[str, Any]],
        *,
        key: str,
        seen: int | None = None,
    ) -> AppendResult:
        """Appends to the log and keeps the thread; none: only keeps it. The same key appends once. `seen`: up to where
        the model was shown the log."""
        body = {"generation": generation, "turn_id": turn_id, "entries": list(entries), "key": key, "seen": seen}
        return _convert_response(await self._api.post(_thread_path(thread_id, "entries"), body), AppendResult)

    async def end_turn(self, thread_id: str, turn_id: str, generation: int, **how: Any) -> None:
        """A turn is over: `status`, and `final` or `error`."""
        await self._api.post(_thread_path(thread_id, "turns", turn_id, "end"), {"generation": generation, **how})


def _thread_path(thread_id: str, *rest: str) -> str:
    return "/threads/" + "/".join(quote(each, safe="") for each in (thread_id, *rest))


def _convert_response(response: Any, shape: type[T]) -> T:
    """What was answered. Raises NoAnswer if it is something else: a server of another version has not answered."""
    try:
        return msgspec.convert(response, shape)
    except msgspec.ValidationError as error:
        raise NoAnswerError(f"the server answered something that this version does not know ({error})") from None
