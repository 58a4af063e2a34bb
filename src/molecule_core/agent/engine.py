"""The heavy half of an agent's process: seats, inbox, tools, channel. Loaded after the host has its first answer.

Above: main. Below: everything else of this room.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from molecule_core.agent.channel import Channel, Ready
from molecule_core.agent.config import Configuration, relays_as
from molecule_core.agent.connections import Servers
from molecule_core.agent.cursors import CursorFile
from molecule_core.agent.hosts import runtime_of, wants_channel
from molecule_core.agent.inbox import Inbox
from molecule_core.agent.leader import Leadership
from molecule_core.agent.membership import Membership, Shared
from molecule_core.agent.neutral import line
from molecule_core.agent.permissions import Permissions, Relay
from molecule_core.agent.seats import Seats
from molecule_core.agent.speaking import refusal, unreachable
from molecule_core.agent.tokens import TokenRegistry
from molecule_core.agent.verbs import Verbs
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids, SystemRandomness
from molecule_core.wire import approving, collaborating, delegating, verbs
from molecule_core.wire.cards import ALL
from molecule_core.wire.mcp import Calling, Outcome
from molecule_core.wire.speaks import Speaks, allowed
from molecule_core.wire.toolspec import Route, ToolSpec

_log = logging.getLogger("molecule.agent")
# What hosts say of who calls: a process serves all threads of a session, or is started for each of them.
_CALLERS = ("threadId", "parentThreadId", "sessionId", "claudecode/toolUseId")
_STOP_SECONDS = 2.0
Local = Callable[[Any, Calling], Awaitable[dict[str, Any]]]


class Engine:
    """Everything that works for one agent. `refused`: called if the token of an only seat is not taken at the start;
    `lost`: called if a seat is gone for good, by a process that is nothing without it; `tools`: those that its model is
    given."""

    def __init__(
        self,
        config: Configuration,
        *,
        clock: Clock,
        card: Callable[[], dict[str, Any]],
        client: Callable[[], dict[str, Any]],
        refused: Callable[[str], None] | None = None,
        lost: Callable[[str], None] | None = None,
        tools: tuple[str, ...] = ALL,
    ) -> None:
        tokens, randomness = TokenRegistry(), SystemRandomness()
        for seat in config.seats:
            tokens.register(seat.id, seat.token)
        self._config = config
        self._clock = clock
        self._client = client
        self._servers = Servers(tokens)
        self._inbox = Inbox()
        shared = Shared(
            clock=clock,
            randomness=randomness,
            wishes=config.wishes,
            tokens=tokens,
            servers=self._servers,
            inbox=self._inbox,
            card=card,
            refused=refused if config.single else None,
            lost=lost,
            several=not config.single,
            tools=tools,
        )
        self.seats = Seats(
            [
                Membership(
                    seat,
                    CursorFile(config.state, seat.id, single=config.single),
                    Leadership(config.state, seat.id),
                    shared,
                )
                for seat in config.seats
            ],
            single=config.single,
        )
        self._ids = ids = Ids(clock, randomness)
        self._randomness = randomness
        self._relay: Relay | None = None
        self._verbs = Verbs(self.seats, self._inbox, clock=clock, ids=ids, randomness=randomness, wishes=config.wishes)
        self._locals: dict[str, Local] = {
            "wait_for_message": self._verbs.wait,
            "inbox_peek": lambda asked, _: self._verbs.peek(asked),
            "inbox_pop": lambda asked, _: self._verbs.pop(asked),
            "reply": self._verbs.answer,
            "decline": self._verbs.decline,
            "reply_to_workspace": self._verbs.reply,
            "get_runtime_identity": lambda _, __: self._identity(),
            "chat_history": lambda asked, _: self._verbs.history(asked),
            **dict.fromkeys(delegating.NAMES, self._verbs.delegating),
            **dict.fromkeys(approving.NAMES, self._verbs.approving),
            **dict.fromkeys(collaborating.NAMES, self._verbs.collaborating),
        }

    @property
    def inbox(self) -> Inbox:
        """The mail of all seats, for an agent that takes it by itself."""
        return self._inbox

    async def push_to(self, notify: Callable[[str, dict[str, Any]], Awaitable[None]], ready: Ready) -> None:
        """Pushes what comes into the host, if it shows such things, until it is cancelled."""
        await ready.wait()
        if not wants_channel(self._config.wishes.channel, self._client()):
            return
        channel = Channel(
            self._inbox,
            notify,
            clock=self._clock,
            wishes=self._config.wishes,
            single=self._config.single,
            look=self._verbs.look,
        )
        await channel.run()

    async def relay(self, permissions: Permissions, notify: Callable[[str, dict[str, Any]], Awaitable[None]]) -> None:
        """Asks on the platform too what the host asks its person to permit, until it is cancelled."""
        config = relays_as(self._config)
        if config is None:
            return
        seat = self.seats.named(config.id)
        self._relay = Relay(
            seat.id,
            self._verbs.speaker(seat),
            notify,
            life=self._ids.new(),
            clock=self._clock,
            randomness=self._randomness,
        )
        await self._relay.run(permissions)

    async def stop(self) -> None:
        """Ends in order, soon."""
        if self._relay is not None:
            await self._relay.stop(_STOP_SECONDS)
        await self.seats.stop(_STOP_SECONDS)
        await self._servers.close()

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def call(self, spec: ToolSpec, arguments: Struct, calling: Calling) -> Outcome:
        """Runs a tool as the seat that the call names. Raises ToolError."""
        who = {name: line(str(calling.meta[name]), 128) for name in _CALLERS if name in calling.meta}
        if who:
            _log.info("call %s %s", spec.name, " ".join(f"{name}={value}" for name, value in who.items()))
        try:
            if isinstance(spec.call, Route):
                return Outcome(await self._run(spec, spec.call, arguments, calling))
            return Outcome(await self._locals[spec.call.name](arguments, calling))
        except ApiError as error:
            raise refusal(error) from None
        except NoAnswer as error:
            raise unreachable(error) from None

    async def _run(self, spec: ToolSpec, route: Route, arguments: Struct, calling: Calling) -> dict[str, Any]:
        seat = self.seats.meant(spec.seat_of(arguments), spec.identity or "via_workspace")
        request = spec.request(seat.id, arguments)
        # A call that the host repeats, by its name for it, is made once.
        named = verbs.call_name(calling.meta)
        headers = verbs.key_headers(named or self._ids.new()) if route.keyed else None
        tries_again = request.method == "GET" or headers
        plain: Speaks = self._verbs.speaker(seat) if tries_again else seat.api()
        speaker = allowed(plain, arguments, reads=True)
        answer = await speaker.call(
            request.method, request.path, body=request.body, query=request.query, headers=headers
        )
        if spec.name == "update_agent_card" and request.body is not None:
            seat.keep_card(request.body["agent_card"])
        return spec.result(seat.id, answer)

    async def _identity(self) -> dict[str, Any]:
        told = self._client()
        runtime = runtime_of(told).name.lower()
        seats = [await self._seat(seat) for seat in self.seats]
        name, version = line(str(told.get("name") or runtime)), line(str(told.get("version", "")))
        return {"runtime": name, "version": version, "workspaces": seats}

    async def _seat(self, seat: Membership) -> dict[str, Any]:
        told = {"workspace_id": seat.id, "platform_url": seat.url, "name": "", "status": seat.state}
        try:
            row = await seat.api().get(f"/workspaces/{seat.id}")
        except (ApiError, NoAnswer):
            return told
        return {**told, "name": str(row.get("name", "")), "status": str(row.get("status", ""))}
