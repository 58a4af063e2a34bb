"""The agent's side of a seat: register, heartbeat, card, peers, discover."""

from typing import Any

from msgspec import Raw, Struct

from molecule_core.access.model import Kind, Role
from molecule_core.edges.auth import Guards
from molecule_core.edges.query import asks, text
from molecule_core.edges.routes import EVERYBODY, WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import InvalidField, MayNotTalk
from molecule_core.ground.limits import Limits
from molecule_core.ground.net import Fetcher
from molecule_core.ground.text import shorten
from molecule_core.messages.telling import Telling
from molecule_core.org import rules
from molecule_core.org.model import POLL, Pulse, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter

COMPACTED = "compacted"
_CARD_TOOL = "update_agent_card"
_AGENT = Who(frozenset((WORKSPACE, Kind.ADMIN)))


class Register(Struct):
    """An agent takes its seat. The card is any JSON; people are shown its name, description and skills."""

    id: str
    agent_card: Any
    url: str | None = None
    delivery_mode: str | None = None


class Heartbeat(Struct):
    """An agent says that it is there, and, if it likes, what it is and which tools it has. `runtime_state`: `wedged`,
    or `compacted` if it has lost what it was told before."""

    workspace_id: str
    error_rate: float = 0.0
    sample_error: str | None = None
    active_tasks: int = 0
    uptime_seconds: float = 0
    current_task: str | None = None
    runtime_state: str | None = None
    agent_card: Any = None
    loaded_mcp_tools: Any = None


class Card(Struct):
    """What an agent says of itself."""

    workspace_id: str
    agent_card: Any


class Question(Struct):
    """Whether one may talk to the other."""

    caller_id: str
    target_id: str


class PeerRow(Struct):
    """A workspace as its peers see it."""

    id: str
    name: str
    role: str | None
    tier: int
    status: str
    url: str | None
    parent_id: str | None
    active_tasks: int
    agent_card: Raw | None


class RegistryEdge:
    """The routes under /registry."""

    def __init__(
        self,
        writer: OrgWriter,
        org: OrgReader,
        guards: Guards,
        fetcher: Fetcher,
        telling: Telling | None,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._telling = telling
        self._heard: dict[str, tuple[str | None, list[Any]]] = {}
        """What agents have said of their tools last, and the card in which that stands."""
        self._fetcher = fetcher
        self._writer = writer
        self._org = org
        self._guards = guards
        self._clock = clock
        self._limits = limits

    def routes(self) -> list[Route]:
        """The rows for the table."""
        talk = Who(EVERYBODY, Reach.TALK, Role.VIEWER)
        own = Who(EVERYBODY, Reach.OWN, Role.VIEWER)
        named = asks(text("q", "Only those whose name or role holds it."))
        return [
            Route("POST", "/registry/register", self.register, _AGENT, "Take a seat", Register),
            Route("POST", "/registry/heartbeat", self.heartbeat, _AGENT, "Say that one is there", Heartbeat),
            Route("POST", "/registry/update-card", self.update_card, _AGENT, "Say what one can do", Card),
            Route(
                "GET", "/registry/{id}/peers", self.peers, own, "Whom one may talk to", None, list[PeerRow], query=named
            ),
            Route("GET", "/registry/discover/{id}", self.discover, talk, "Look up a peer"),
            Route("POST", "/registry/check-access", self.check_access, Who(EVERYBODY), "Ask who may talk", Question),
        ]

    def _own(self, call: Call, workspace_id: str) -> Workspace:
        """The workspace that the body names: the caller's own, or any for the admin."""
        return self._guards.reach(call.by, workspace_id, Reach.OWN)

    async def register(self, call: Call) -> Answer:
        """An agent takes its seat. Never makes one, never hands out a token."""
        asked = call.read(Register)
        workspace = self._own(call, asked.id)
        if asked.url and (asked.delivery_mode or workspace.delivery_mode) != POLL:
            await self._fetcher.check(asked.url)  # control: registered-url-check
        stays = await self._card_stays(call)
        mode, url = asked.delivery_mode or None, asked.url or None
        workspace = await self._writer.register(workspace.id, asked.agent_card, mode, url, card_stays=stays)
        if self._telling is not None:
            await self._telling.forget(workspace.id)
        return json_answer({"status": "registered", "delivery_mode": workspace.delivery_mode})

    async def heartbeat(self, call: Call) -> Answer:
        """An agent says that it is there, and how it fares."""
        beat = call.read(Heartbeat)
        workspace = self._own(call, beat.workspace_id)
        if not 0 <= beat.error_rate <= 1 or beat.active_tasks < 0 or beat.uptime_seconds < 0:
            raise InvalidField(reason="error_rate must lie between 0 and 1, active_tasks and uptime_seconds from 0 up")
        if max(beat.active_tasks, beat.uptime_seconds) > 1 << 53:
            raise InvalidField(reason="active_tasks and uptime_seconds must be plausible numbers")
        limit = self._limits.short_text_length
        pulse = Pulse(
            heard_at=self._clock.now(),
            active_tasks=beat.active_tasks,
            error_rate=beat.error_rate,
            sample_error=None if beat.sample_error is None else shorten(beat.sample_error, limit),
            uptime_seconds=int(beat.uptime_seconds),
            current_task=None if beat.current_task is None else shorten(beat.current_task, limit),
        )
        await self._writer.heartbeat(workspace.id, pulse, runtime_state=beat.runtime_state)
        if beat.agent_card is not None:
            stays = await self._card_stays(call)
            await self._writer.update_card(workspace.id, beat.agent_card, card_stays=stays)
        if self._telling is not None:
            await self._hear_of_tools(self._telling, beat)
        return json_answer({"status": "ok"})

    async def _card_stays(self, call: Call) -> bool:
        """Whether a rule stops changes of the card. What an agent brings along is not refused for that, which would
        keep it from its seat: the card stays as it is."""
        return await self._guards.leave.is_needed(call, _CARD_TOOL)

    async def _hear_of_tools(self, telling: Telling, beat: Heartbeat) -> None:
        """The tools that an agent has at this moment stand in its card, beside what it says there itself, and what it
        has forgotten it is told again. Most beats say the same as the one before, which costs a comparison."""
        if beat.runtime_state == COMPACTED:
            await telling.forget(beat.workspace_id)
        text = self._org.living(beat.workspace_id).agent_card
        said = (text, beat.loaded_mcp_tools)
        if not isinstance(beat.loaded_mcp_tools, list) or self._heard.get(beat.workspace_id) == said:
            return
        await self._writer.update_tools(beat.workspace_id, beat.loaded_mcp_tools)
        self._heard[beat.workspace_id] = (self._org.living(beat.workspace_id).agent_card, beat.loaded_mcp_tools)

    async def update_card(self, call: Call) -> Answer:
        """What an agent says of itself now."""
        card = call.read(Card)
        await self._writer.update_card(self._own(call, card.workspace_id).id, card.agent_card)
        return json_answer({"status": "updated"})

    async def peers(self, call: Call) -> Answer:
        """Siblings, then children, then the parent; `q` keeps those whose name or role holds it."""
        wanted = call.query().get("q", "").strip().casefold()
        found = [
            each
            for each in rules.peers(self._org, call.target)
            if wanted in each.name.casefold() or wanted in (each.role or "").casefold()
        ]
        return json_answer([self._peer(each) for each in found])

    def _peer(self, workspace: Workspace) -> PeerRow:
        card = None if workspace.agent_card is None else Raw(workspace.agent_card.encode())
        return PeerRow(
            id=workspace.id,
            name=workspace.name,
            role=workspace.role,
            tier=workspace.tier,
            status=workspace.status.value,
            url=workspace.url,
            parent_id=workspace.parent_id,
            active_tasks=self._org.pulse(workspace.id).active_tasks,
            agent_card=card,
        )

    async def discover(self, call: Call) -> Answer:
        """A peer's name, and where its messages go."""
        self._check_may_talk(call)
        peer = call.target
        card = None if peer.agent_card is None else Raw(peer.agent_card.encode())
        return json_answer(
            {"id": peer.id, "url": peer.url, "name": peer.name, "status": peer.status.value, "agent_card": card}
        )

    def _check_may_talk(self, call: Call) -> None:
        own = self._org.workspace(call.by.id) if call.by.kind is Kind.WORKSPACE else None
        if own is not None and not rules.may_talk(self._org, own, call.target):
            raise MayNotTalk

    async def check_access(self, call: Call) -> Answer:
        """Whether two workspaces may talk; no for every id that the caller's organisation does not hold."""
        asked = call.read(Question)
        ids = (asked.caller_id, asked.target_id)
        one, other = (self._org.workspace(each) for each in ids)
        own_org = call.by.kind is Kind.ADMIN or (one is not None and one.org_id == call.by.org_id)
        allowed = one is not None and other is not None and own_org and rules.may_talk(self._org, one, other)
        return json_answer({"allowed": allowed})
