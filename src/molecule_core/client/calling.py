"""Runs the registry's tools over the public API: routes as they are declared, and the other verbs without an inbox of
one's own, by plain claims and acks. For hosts that keep nothing between two calls: the command line, LangChain.

Above: cli, langchain. Below: whoever makes the requests, and the walks of `wire/verbs.py`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.client.claiming import Claims, Seat
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids
from molecule_core.wire import approving, collaborating, delegating, replytypes, verbs
from molecule_core.wire import tooltypes as types
from molecule_core.wire.inbox import InboxMessage
from molecule_core.wire.speaks import allowed
from molecule_core.wire.toolspec import Local, ToolError, ToolSpec


class Caller:
    """Runs tools as one of several seats. `runtime` and `version` are what get_runtime_identity tells."""

    def __init__(
        self, seats: Sequence[Seat], *, clock: Clock, ids: Ids, runtime: str, version: str, lease: int = 300
    ) -> None:
        self._seats = {seat.id: seat for seat in seats}
        self._clock = clock
        self._ids = ids
        self._runtime = runtime
        self._version = version
        self._claims = Claims(seats, clock=clock, lease=lease)
        self._seen: dict[str, InboxMessage] = {}
        """What was shown, by id: where it came to, and under which attempt."""
        self._locals: Mapping[str, _Verb] = {
            "reply": self._answer,
            "decline": self._decline,
            "reply_to_workspace": self._reply,
            "get_runtime_identity": self._identity,
            "wait_for_message": self._wait,
            "inbox_peek": self._peek,
            "inbox_pop": self._pop,
            "chat_history": self._history,
            **dict.fromkeys(delegating.NAMES, self._delegating),
            **dict.fromkeys(approving.NAMES, self._approving),
            **dict.fromkeys(collaborating.NAMES, self._collaborating),
        }

    @property
    def local_names(self) -> Iterable[str]:
        """The verbs that are no routes, as far as they can be run here."""
        return self._locals.keys()

    async def call(
        self, spec: ToolSpec, arguments: Struct, *, key: str = "", progress: verbs.Progress | None = None
    ) -> dict[str, Any]:
        """What a tool gives, in the shape that it promises. A call that is repeated with its `key` acts once. Raises
        ToolError."""
        if isinstance(spec.call, Local):
            return await self._locals[spec.call.name](arguments, key, progress)
        seat = self._meant(spec, arguments)
        asked = spec.request(seat.id, arguments)
        headers = verbs.key_headers(key or self._ids.new()) if spec.call.keyed else None
        speaks = allowed(seat.speaker, arguments, reads=True)
        answer = await speaks.call(
            asked.method, asked.path, body=asked.body, query=asked.query or None, headers=headers
        )
        return spec.result(seat.id, answer)

    async def close(self) -> None:
        """Gives back what was taken and shown to nobody."""
        await self._claims.close()

    # -- as whom -------------------------------------------------------------------------------------------------------

    def _meant(self, spec: ToolSpec, arguments: Struct) -> Seat:
        return self._named(spec.seat_of(arguments), spec.identity or "")

    def _named(self, workspace_id: str, argument: str) -> Seat:
        """The seat of this id, or the only one. Never another one. Raises ToolError."""
        choices = ", ".join(self._seats)
        if workspace_id:
            found = self._seats.get(workspace_id)
            if found is None:
                raise ToolError(f"workspace {workspace_id} is none of yours; yours: {choices}", "unknown_workspace")
            return found
        if len(self._seats) > 1:
            raise ToolError(
                f"you sit in several workspaces; say as which one you act with {argument}: {choices}",
                "ambiguous_workspace",
            )
        return next(iter(self._seats.values()))

    async def _holder(self, activity_id: str) -> Seat:
        """The seat whose inbox holds a message. Raises ToolError."""
        seen = self._seen.get(activity_id)
        if seen is not None:
            return self._seats[seen.arrival_workspace_id]
        for seat in self._seats.values():
            try:
                await verbs.check_own(seat.speaker, seat.id, activity_id)
            except ToolError as error:
                if error.code != "wrong_workspace":
                    raise
            else:
                return seat
        raise ToolError(
            f"none of your workspaces has a message {activity_id}; inbox_peek shows what waits", "unknown_message"
        )

    def _attempt(self, activity_id: str, given: int) -> int:
        seen = self._seen.get(activity_id)
        return given or (seen.attempt if seen is not None else 0)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    async def _reply(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given, fits = self._by_handle(arguments)
        if given.workspace_id or not given.activity_id:
            seat = self._named(given.workspace_id, "workspace_id")
        else:
            seat = await self._holder(given.activity_id)
        attempt = self._attempt(given.activity_id, given.attempt)
        given = msgspec.structs.replace(given, attempt=attempt)
        told = await verbs.reply(seat.speaker, seat.id, given, key or self._ids.new(), fits=fits)
        if told["acknowledged"] and (fits or not given.reply_handle):  # else the handle named a message unseen here
            self._seen.pop(given.activity_id, None)
        return told

    def _by_handle(self, given: types.ReplyArguments) -> tuple[types.ReplyArguments, bool]:
        """The message of a handle that was shown; whether it is known which one. Raises ToolError if the call names
        another message beside it."""
        if not given.reply_handle:
            return given, False
        shown = [each for each in self._seen.values() if each.reply_handle == given.reply_handle]
        places = {each.arrival_workspace_id: each.activity_id for each in shown}
        beside = self._seen.get(given.activity_id)
        if given.activity_id and (places or (beside is not None and beside.reply_handle)):
            if given.activity_id not in places.values():
                raise verbs.refuse_two_messages(given.activity_id, given.reply_handle)
            return given, True
        if len(places) == 1 and given.workspace_id in ("", *places):
            ((seat_id, activity_id),) = places.items()
            return msgspec.structs.replace(given, workspace_id=seat_id, activity_id=activity_id), True
        return given, False

    async def _answer(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given: replytypes.AnswerArguments = arguments
        seat, attempt = self._of_handle(given.handle, given.via_workspace)
        told = await verbs.answer(seat.speaker, seat.id, given, key or self._ids.new(), attempt)
        return self._closed(told)

    async def _decline(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given: replytypes.DeclineArguments = arguments
        seat, attempt = self._of_handle(given.handle, given.via_workspace)
        told = await verbs.decline(seat.speaker, seat.id, given, key or self._ids.new(), attempt)
        return self._closed(told)

    def _of_handle(self, handle: str, named: str) -> tuple[Seat, int]:
        """The seat of a message that was shown with this handle, and under which attempt; else the seat that is named,
        or the only one. Raises ToolError."""
        shown = [each for each in self._seen.values() if each.reply_handle == handle]
        places = {each.arrival_workspace_id for each in shown}
        seat = self._named(named or (places.pop() if len(places) == 1 else ""), "via_workspace")
        return seat, max((each.attempt for each in shown if each.arrival_workspace_id == seat.id), default=0)

    def _closed(self, told: dict[str, Any]) -> dict[str, Any]:
        if told["acknowledged"]:
            self._seen.pop(told["answers"], None)
        return told

    async def _identity(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        seats = [await self._known(seat) for seat in self._seats.values()]
        told: dict[str, Any] = msgspec.to_builtins(
            types.Identity(runtime=self._runtime, version=self._version, workspaces=seats)
        )
        return told

    async def _known(self, seat: Seat) -> types.SeatInfo:
        try:
            info = await seat.speaker.call("GET", f"/workspaces/{seat.id}")
        except ToolError as error:
            return types.SeatInfo(workspace_id=seat.id, platform_url=seat.url, status=error.text)
        return types.SeatInfo(workspace_id=seat.id, platform_url=seat.url, name=info["name"], status=info["status"])

    async def _wait(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given: types.WaitArguments = arguments
        message = await self._claims.next(given.timeout_secs, progress)
        note = "" if message else "no message came in this time; call again to go on waiting"
        waited = types.Waited(
            message=None if message is None else self._shown(message), waiting=self._claims.waiting, note=note
        )
        told: dict[str, Any] = msgspec.to_builtins(waited)
        return told

    async def _peek(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given: types.PeekArguments = arguments
        several = len(self._seats) > 1
        pages = [await verbs.peek(seat.speaker, seat.id, given.limit, several=several) for seat in self._seats.values()]
        found = sorted((message for page in pages for message in page), key=lambda message: message.created_at)
        shown = [self._shown(message) for message in found[: given.limit]]
        told: dict[str, Any] = msgspec.to_builtins(types.Peeked(messages=shown))
        return told

    def _shown(self, message: InboxMessage) -> InboxMessage:
        self._seen[message.activity_id] = message
        return message

    async def _pop(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given: types.PopArguments = arguments
        named = given.workspace_id
        seat = self._named(named, "workspace_id") if named else await self._holder(given.activity_id)
        attempt = self._attempt(given.activity_id, given.attempt)
        told = await verbs.pop(seat.speaker, seat.id, msgspec.structs.replace(given, attempt=attempt))
        self._seen.pop(given.activity_id, None)
        return told

    async def _history(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        given: types.HistoryArguments = arguments
        seat = self._named(given.via_workspace, "via_workspace")
        return await verbs.history(seat.speaker, seat.id, given)

    async def _delegating(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        """The tools about delegations. Without a key of the caller's own none is sent: a new one with each call would
        name nothing."""
        seats = [(seat.id, seat.speaker) for seat in self._seats.values()]
        return await delegating.run(seats, arguments, key, clock=self._clock, progress=progress)

    async def _approving(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        """The tools about approvals."""
        seats = [(seat.id, seat.speaker) for seat in self._seats.values()]
        shown = approving.shown_in(self._seen.values(), arguments)
        return await approving.run(seats, arguments, key, clock=self._clock, progress=progress, shown=shown)

    async def _collaborating(self, arguments: Any, key: str, progress: verbs.Progress | None) -> dict[str, Any]:
        """The tools about agents in threads."""
        seats = [(seat.id, seat.speaker) for seat in self._seats.values()]
        call = key or self._ids.new()
        return await collaborating.run(seats, arguments, call, clock=self._clock, progress=progress)


_Verb = Callable[[Any, str, verbs.Progress | None], Awaitable[dict[str, Any]]]
