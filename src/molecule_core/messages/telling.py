"""How an agent is told to answer a message: who it is and what is true of the message in, instructions out.

Only the words are chosen here, never whether a message is delivered: what cannot be rendered goes out without
instructions, and the renderer counts it.

Above: handing and pushing, which tell once with each hand-over; the edges, which show it. Below: the renderer, handles.
"""

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.ground.clock import SECOND, rfc3339
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import InstructionMeter
from molecule_core.ground.settings import Settings
from molecule_core.ground.text import is_client_id, shorten
from molecule_core.instructions.model import Choice, Facts, Form, Rendered, Seat
from molecule_core.instructions.render import Renderer, seat_of
from molecule_core.messages.handles import handle_of
from molecule_core.messages.model import KIND_ASKED, KIND_DELEGATION, KIND_USER, Shown
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Step, Store, WriteSet
from molecule_core.store.queries import Params
from molecule_core.wire.activity import attachments_of
from molecule_core.wire.envelope import Instructions, Shape

Statement = tuple[str, Params]
_REQUEST = "request"
# An id of somebody else, as it may stand in a text.
_MOST_ID = 128
_WORTH_READING = ('"file"', '"user_id"', '"delegation_id"')


class Wish(Struct, frozen=True):
    """How the agent that asks for its mail is told how to answer: beside the message, or in its text. `several`: its
    process sits in more workspaces, so that it must say as which it answers."""

    beside: bool
    several: bool = False


class SeatState(Struct, frozen=True):
    """What an agent was told last, in the order `seat_told` selects it: of which template (id@version; empty: nothing
    yet), with which facts, and whether it has left a message without an answer since."""

    template: str = ""
    facts: str = ""
    missed: int = 0


_NOTHING_TOLD = SeatState()


class Told(NamedTuple):
    """What was said with a message, for whoever asks later; `facts`: what of it stays the same from message to
    message."""

    org_id: str
    template: str
    version: int
    form: str
    tokens: int
    facts: str

    @property
    def state(self) -> SeatState:
        """What the agent knows now."""
        return SeatState(f"{self.template}@{self.version}", self.facts, 0)


Tells = tuple[Instructions, Told]


class Telling:
    """Tells agents. `shape` and `adaptive`: as the deployment has it. A server that tells nothing has none."""

    def __init__(
        self,
        renderer: Renderer,
        org: OrgReader,
        store: Store,
        meter: InstructionMeter,
        *,
        limits: Limits,
        shape: Shape,
        adaptive: bool,
    ) -> None:
        self._renderer = renderer
        self._org = org
        self._store = store
        self._meter = meter
        self._limits = limits
        self._shape = shape
        self._adaptive = adaptive
        self._seats: dict[str, tuple[Workspace, Seat]] = {}

    def shape(self, workspace: Workspace) -> str:
        """How an agent is told: json, xml or both; its workspace's wish counts more than the deployment's."""
        return workspace.instruction_shape or self._shape

    # -- with a hand-over ----------------------------------------------------------------------------------------------

    def over(
        self,
        workspace: Workspace,
        rows: Iterable[Shown],
        *,
        now: int,
        several: bool = False,
        reminders: frozenset[str] = frozenset(),
    ) -> Generator[Step, Any, tuple[list[Tells | None], list[Statement]]]:
        """What is said with each of these messages, which are handed over together, and what is to be kept of that.
        `several`: the agent's process sits in more workspaces; `reminders`: those that come once more, unanswered."""
        remembers = self._remembers(workspace)
        before = state = (yield from seat_state(workspace.id)) if remembers else _NOTHING_TOLD
        told: list[Tells | None] = []
        for row in rows:
            due = self.due(workspace, row, now)
            tells = self.tell(workspace, row, state, several=several, reminder=row.id in reminders, due=due)
            told.append(tells)
            if tells is not None:
                state, said = tells[1].state, tells[1]
                self._meter.told_with(workspace.runtime, said.template, said.form, said.tokens)
        return told, [remember(workspace.id, state)] if remembers and state != before else []

    def along(
        self, workspace: Workspace, rows: list[Shown], now: int, wish: Wish, reminders: frozenset[str] = frozenset()
    ) -> Generator[Step, Any, tuple[list[Shown], list[Statement], dict[int, Told]]]:
        """The same, with the words in the rows; beside them, by the rows' numbers, what was said."""
        tells, kept = yield from self.over(workspace, rows, now=now, several=wish.several, reminders=reminders)
        pairs = list(zip(rows, tells, strict=True))
        told = {row.seq: each[1] for row, each in pairs if each is not None}
        return [replace(row, instructions=None if each is None else each[0]) for row, each in pairs], kept, told

    async def forget(self, workspace_id: str) -> None:
        """An agent begins anew: it is told all with its next message. Raises NotFound, WorkspaceRemoved."""
        forgetting: Statement = ("forget_seat_told", {"workspace_id": workspace_id})

        def decide() -> Decision[None]:
            known = yield Read("seat_told", {"workspace_id": workspace_id})
            return WriteSet(None, [forgetting] if known else [])

        org_id = self._org.living(workspace_id).org_id
        await self._store.run(Command(org_id, (("inbox", workspace_id),), decide))

    def _remembers(self, workspace: Workspace) -> bool:
        """Whether it matters what an agent was told before."""
        return self._adaptive and not workspace.instruction_compact

    def due(self, workspace: Workspace, row: Shown, now: int) -> int | None:
        """Until when an answer is due that is asked for now (microseconds); None: nobody watches, or none is. Nobody
        watches for the answer to a delegation, which has hours, or to an approval, which moves on."""
        if row.kind in (KIND_DELEGATION, KIND_ASKED):
            return None
        seconds = self._limits.reply_seconds if workspace.reply_seconds is None else workspace.reply_seconds
        return now + seconds * SECOND if row.intent == _REQUEST and seconds > 0 else None

    # -- without one ---------------------------------------------------------------------------------------------------

    async def remembered(self, workspace: Workspace) -> SeatState:
        """What an agent was told last, for a look at its mail that hands nothing out."""
        if not self._remembers(workspace):
            return _NOTHING_TOLD
        rows = await self._store.rows("seat_told", {"workspace_id": workspace.id})
        return SeatState(*rows[0]) if rows else _NOTHING_TOLD

    # -- one message ---------------------------------------------------------------------------------------------------

    def tell(
        self,
        workspace: Workspace,
        row: Shown,
        state: SeatState,
        *,
        several: bool = False,
        reminder: bool = False,
        due: int | None = None,
    ) -> Tells | None:
        """What is said with a message to an agent that was told so much before. None: nothing can be said, which the
        renderer has counted; no fault of a template, or of ours, keeps a message from its agent."""
        seat, choice = self.seat_of(workspace), None
        try:
            choice = self._renderer.choose(seat, row.id, row.inbound_no)
            return self._told_with(workspace, row, state, seat, choice, several=several, reminder=reminder, due=due)
        except Exception as error:
            self._renderer.broke(seat, choice, error)
            return None

    def _told_with(
        self,
        workspace: Workspace,
        row: Shown,
        state: SeatState,
        seat: Seat,
        choice: Choice,
        *,
        several: bool,
        reminder: bool,
        due: int | None,
    ) -> Tells | None:
        key = self._renderer.facts_key(seat, choice)
        form = Form.FULL if reminder else self._form(workspace, choice, key, state)
        facts = self._facts(workspace, row, several=several, reminder=reminder, due=due)
        said = self._renderer.render(seat, choice, form, facts)
        if said is None:
            return None
        told = Told(choice.org_id, choice.template_id, choice.version, form.value, said.tokens, key)
        return _instructions(said, facts), told

    def _form(self, workspace: Workspace, choice: Choice, key: str, state: SeatState) -> Form:
        if workspace.instruction_compact:
            return Form.COMPACT
        if not self._adaptive or state.missed or state.template != choice.name:
            return Form.FULL
        return Form.COMPACT if state.facts == key else Form.DELTA

    def seat_of(self, workspace: Workspace) -> Seat:
        """Who is spoken to: another one only when the workspace or its agent's card has changed."""
        known = self._seats.get(workspace.id)
        if known is not None and known[0] is workspace:
            return known[1]
        chosen, card = workspace.instruction_template_id, workspace.agent_card
        seat = seat_of(workspace.id, workspace.org_id, workspace.runtime, chosen, card)
        self._seats[workspace.id] = (workspace, seat)
        return seat

    def _facts(self, workspace: Workspace, row: Shown, *, several: bool, reminder: bool, due: int | None) -> Facts:
        peer_id = row.source_id or ""
        peer = self._org.workspace(peer_id) if peer_id else None
        body = _read(row.request_body)
        return Facts(
            kind=row.kind or "",
            peer_id=peer_id,
            peer_name="" if peer is None else peer.name,
            peer_role="" if peer is None else shorten(peer.role or "", self._limits.name_length),
            workspace_id=workspace.id,
            arrival_workspace_id=workspace.id if several else "",
            reply_handle=_handle(row, workspace.org_id),
            delegation_id=_delegation(row.kind, body.message.metadata.delegation_id),
            user_id=_id(body.metadata.user_id) if row.kind == KIND_USER else "",
            intent=row.intent or "",
            due_at="" if due is None else rfc3339(due),
            attempt=row.attempt or 1,
            attachments=tuple(each.get("name") or "file" for each in attachments_of(list(body.message.parts))),
            reminder=reminder,
        )


def telling_of(
    settings: Settings, renderer: Renderer, org: OrgReader, store: Store, meter: InstructionMeter
) -> Telling | None:
    """Whoever tells agents how to answer; nobody does where that is switched off."""
    if not settings.push_instructions_enabled:
        return None
    shape, adaptive = settings.instruction_shape, settings.instruction_adaptive
    return Telling(renderer, org, store, meter, limits=settings.limits, shape=shape, adaptive=adaptive)


# -- steps that hands of this slice take -------------------------------------------------------------------------------


def seat_state(workspace_id: str) -> Generator[Step, Any, SeatState]:
    """What an agent was told last."""
    rows = yield Read("seat_told", {"workspace_id": workspace_id})
    return SeatState(*rows[0]) if rows else _NOTHING_TOLD


def remember(workspace_id: str, state: SeatState) -> Statement:
    """An agent was told so much."""
    known = {"template": state.template, "facts": state.facts, "missed": state.missed}
    return "save_seat_told", {"workspace_id": workspace_id, **known}


# -- what stands in a message ------------------------------------------------------------------------------------------


class _About(Struct, frozen=True):
    user_id: Any = None
    delegation_id: Any = None


class _Message(Struct, frozen=True):
    parts: tuple[Any, ...] = ()
    metadata: _About = _About()


class _Body(Struct, frozen=True):
    message: _Message = _Message()
    metadata: _About = _About()


class _Stored(Struct, frozen=True):
    params: _Body = _Body()


_STORED = msgspec.json.Decoder(_Stored)


def _read(request_body: str | None) -> _Body:
    """What instructions speak of in a stored message; nothing of one that holds nothing of it."""
    if request_body is None or not any(word in request_body for word in _WORTH_READING):
        return _Body()
    try:
        return _STORED.decode(request_body).params
    except msgspec.ValidationError:
        return _Body()


def _id(given: Any) -> str:
    return shorten(given, _MOST_ID) if isinstance(given, str) else ""


def _delegation(kind: str | None, given: Any) -> str:
    """The id of a delegation, in a message that is about one. Whoever sends another kind may write there what it likes,
    and here what is no id: none of it is said in our words."""
    is_about = (kind or "").startswith("delegation")
    return given if is_about and isinstance(given, str) and is_client_id(given, _MOST_ID) else ""


def _handle(row: Shown, org_id: str) -> str:
    if row.inbound_no is None:
        return ""
    return handle_of(org_id, row.source_id or "", row.workspace_id, row.context_id, row.id, row.seq)


def _instructions(said: Rendered, facts: Facts) -> Instructions:
    args = {"peer_id": facts.peer_id}
    if facts.arrival_workspace_id:
        args["workspace_id"] = facts.arrival_workspace_id
    return Instructions(
        reply_via=said.reply_via,
        reply_args=args,
        stdout_warning=said.stdout_warning,
        docs_url=said.docs_url,
        available_tools=said.available_tools,
        template=said.choice.name,
        form=said.form.value,
        text=said.text,
        tokens=said.tokens,
        reply_handle=facts.reply_handle,
        due_at=facts.due_at,
    )
