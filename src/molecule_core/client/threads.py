"""Client of the thread routes, for an engine and for a client of one workspace.

An engine's writes have a key, so that a call can be repeated when its response was lost. Called by the engines.
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
    """Result of an append. `stop`: why the server accepts no more for this turn, if it does not."""

    last_ordinal: int = 0
    stop: str | None = None


class _BeginTurnResult(Struct, frozen=True):
    stop: str | None = None


class RawLogEntry(Struct, frozen=True, kw_only=True):
    """A log entry with its content as stored."""

    ordinal: int
    type: str
    turn_id: str | None = None
    entry: dict[str, Any] = field(default_factory=dict)


class _LogPage(Struct, frozen=True):
    items: list[RawLogEntry]


class EngineThread(Struct, frozen=True, kw_only=True):
    """The fields of a thread that its engine needs."""

    thread_id: str
    root_id: str = ""
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
    """Threads of one workspace. `api` returns the client with the current credential.

    All methods raise ApiError and NoAnswerError."""

    def __init__(self, api: Callable[[], ApiClient], workspace_id: str) -> None:
        self._client = api
        self._workspace_path = f"/workspaces/{quote(workspace_id, safe='')}/threads"

    @property
    def _api(self) -> ApiClient:
        return self._client()

    # -- threads -------------------------------------------------------------------------------------------------------

    async def start(self, key: str, **fields: Any) -> EngineThread:
        """Start a thread, or return the one started with this key before."""
        return _convert_response(await self._api.post(self._workspace_path, {**fields, "key": key}), EngineThread)

    async def get(self, thread_id: str) -> EngineThread:
        """Return a thread with its base instructions."""
        return _convert_response(await self._api.get(_thread_path(thread_id)), EngineThread)

    async def list_entries(self, thread_id: str, *, after: int = 0, limit: int = 200) -> list[RawLogEntry]:
        """Return entries of its log, in order."""
        response = await self._api.get(_thread_path(thread_id, "items"), after=after, limit=limit)
        return _convert_response(response, _LogPage).items

    async def get_model_context(self, thread_id: str) -> ModelContext:
        """Return what a model sees of it now."""
        return _convert_response(await self._api.get(_thread_path(thread_id, "sight")), ModelContext)

    async def start_turn(self, thread_id: str, content: Any, *, key: str, mode: str = "auto") -> TurnResponse:
        """Queue input for a turn; the same key is one turn."""
        body = {"input": content, "mode": mode, "key": key}
        return _convert_response(await self._api.post(_thread_path(thread_id, "turns"), body), TurnResponse)

    # -- an engine's own -----------------------------------------------------------------------------------------------

    async def find_work(self, owner: str, *, wait: int = 0, include_own: bool = False) -> list[str]:
        """Return threads of the workspace with pending work; waits for the first one.

        `include_own`: also those in which an earlier process of this owner has begun a turn."""
        query = {"wait": wait, "owner": owner, "own_too": 1 if include_own else None}
        response = _convert_response(await self._api.get(f"{self._workspace_path}/work", **query), WorkList)
        return list(dict.fromkeys(each.thread_id for each in response.threads))

    async def claim(self, thread_id: str, owner: str) -> ThreadClaim:
        """Claim a thread that no other engine holds."""
        return _convert_response(await self._api.post(_thread_path(thread_id, "claim"), {"owner": owner}), ThreadClaim)

    async def release(self, thread_id: str, generation: int) -> None:
        """Release a thread."""
        await self._api.post(_thread_path(thread_id, "release"), {"generation": generation})

    async def begin_turn(self, thread_id: str, turn_id: str, generation: int) -> str | None:
        """Begin or resume a turn; pending messages and notes are then in the log.

        Returns why the server has ended the turn instead, if it has."""
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
        """Append entries to the log and renew the lease; without entries only the lease.

        The same key appends once. `seen`: the last ordinal that the model was shown."""
        body = {"generation": generation, "turn_id": turn_id, "entries": list(entries), "key": key, "seen": seen}
        return _convert_response(await self._api.post(_thread_path(thread_id, "entries"), body), AppendResult)

    async def interrupt(self, thread_id: str) -> None:
        """Interrupt the running turn, if there is one."""
        await self._api.post(_thread_path(thread_id, "interrupt"))

    async def end_turn(self, thread_id: str, turn_id: str, generation: int, **fields: Any) -> None:
        """End a turn with `status`, and `final` or `error`."""
        await self._api.post(_thread_path(thread_id, "turns", turn_id, "end"), {"generation": generation, **fields})


def _thread_path(thread_id: str, *rest: str) -> str:
    return "/threads/" + "/".join(quote(each, safe="") for each in (thread_id, *rest))


def _convert_response(response: Any, shape: type[T]) -> T:
    """Convert a response. Raises NoAnswerError if it does not fit, e.g. from a server of another version."""
    try:
        return msgspec.convert(response, shape)
    except msgspec.ValidationError as error:
        raise NoAnswerError(f"this version cannot read the response of the server ({error})") from None
