"""The routes of threads, as an engine and a client of one workspace use them.

What an engine writes has a key, so that each call may be made again when its answer was lost. Above: the engines.
Below: whoever makes the requests; the shapes that both sides speak.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from molecule_core.client.api import Api, NoAnswer
from molecule_core.wire.threads import Claim, Sight, TurnTaken, Work

T = TypeVar("T")


class Appended(Struct, frozen=True):
    """What was appended stands in the log. `stop`: nothing more is taken for this turn, and why."""

    last_ordinal: int = 0
    stop: str | None = None


class _Begun(Struct, frozen=True):
    stop: str | None = None


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a log, with its entry as it stands there."""

    ordinal: int
    type: str
    turn_id: str | None = None
    entry: dict[str, Any] = field(default_factory=dict)


class _Page(Struct, frozen=True):
    items: list[LogLine]


class Thread(Struct, frozen=True, kw_only=True):
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


class Threads:
    """Threads of one workspace. `api`: its client, with the credential of the moment. Everything raises ApiError and
    NoAnswer."""

    def __init__(self, api: Callable[[], Api], workspace_id: str) -> None:
        self._client = api
        self._own = f"/workspaces/{quote(workspace_id, safe='')}/threads"

    @property
    def _api(self) -> Api:
        return self._client()

    # -- threads -------------------------------------------------------------------------------------------------------

    async def start(self, key: str, **fields: Any) -> Thread:
        """A new thread, or the one that was started with this key before."""
        return _shaped(await self._api.post(self._own, {**fields, "key": key}), Thread)

    async def get(self, thread_id: str) -> Thread:
        """A thread, with its base instructions."""
        return _shaped(await self._api.get(_of(thread_id)), Thread)

    async def items(self, thread_id: str, *, after: int = 0, limit: int = 200) -> list[LogLine]:
        """Lines of its log, in order."""
        told = await self._api.get(_of(thread_id, "items"), after=after, limit=limit)
        return _shaped(told, _Page).items

    async def sight(self, thread_id: str) -> Sight:
        """What a model sees of it now."""
        return _shaped(await self._api.get(_of(thread_id, "sight")), Sight)

    async def turn(self, thread_id: str, given: Any, *, key: str, mode: str = "auto") -> TurnTaken:
        """Something to work on; the same key is one turn."""
        body = {"input": given, "mode": mode, "key": key}
        return _shaped(await self._api.post(_of(thread_id, "turns"), body), TurnTaken)

    # -- an engine's own -----------------------------------------------------------------------------------------------

    async def work(self, owner: str, *, wait: int = 0, own_too: bool = False) -> list[str]:
        """Threads of the workspace in which something is to be done; waits for a first one. `own_too`: also those in
        which an earlier life of this owner has begun a turn."""
        query = {"wait": wait, "owner": owner, "own_too": 1 if own_too else None}
        told = _shaped(await self._api.get(f"{self._own}/work", **query), Work)
        return list(dict.fromkeys(each.thread_id for each in told.threads))

    async def claim(self, thread_id: str, owner: str) -> Claim:
        """Takes a thread over from whoever has lost it."""
        return _shaped(await self._api.post(_of(thread_id, "claim"), {"owner": owner}), Claim)

    async def release(self, thread_id: str, generation: int) -> None:
        """Gives a thread back."""
        await self._api.post(_of(thread_id, "release"), {"generation": generation})

    async def begin(self, thread_id: str, turn_id: str, generation: int) -> str | None:
        """Begins a turn, or goes on with it: mail and notes that wait are in the log then. Why the server has ended the
        turn instead, if it has."""
        told = await self._api.post(_of(thread_id, "turns", turn_id, "begin"), {"generation": generation})
        return _shaped(told, _Begun).stop

    async def append(
        self,
        thread_id: str,
        turn_id: str,
        generation: int,
        entries: Sequence[dict[str, Any]],
        *,
        key: str,
        seen: int | None = None,
    ) -> Appended:
        """Appends to the log and keeps the thread; none: only keeps it. The same key appends once. `seen`: up to where
        the model was shown the log."""
        body = {"generation": generation, "turn_id": turn_id, "entries": list(entries), "key": key, "seen": seen}
        return _shaped(await self._api.post(_of(thread_id, "entries"), body), Appended)

    async def end(self, thread_id: str, turn_id: str, generation: int, **how: Any) -> None:
        """A turn is over: `status`, and `final` or `error`."""
        await self._api.post(_of(thread_id, "turns", turn_id, "end"), {"generation": generation, **how})


def _of(thread_id: str, *rest: str) -> str:
    return "/threads/" + "/".join(quote(each, safe="") for each in (thread_id, *rest))


def _shaped(told: Any, shape: type[T]) -> T:
    """What was answered. Raises NoAnswer if it is something else: a server of another version has not answered."""
    try:
        return msgspec.convert(told, shape)
    except msgspec.ValidationError as error:
        raise NoAnswer(f"the server answered something that this version does not know ({error})") from None
