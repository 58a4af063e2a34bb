"""Renders instructions for answering a message.

Errors never affect delivery: a message whose instructions cannot be rendered is delivered without them, and the
renderer counts the failure. Called by inbox claims and push claims, once per delivery, and by the API for previews."""

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.common.clock import to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import InstructionMeter
from molecule_core.common.settings import Settings
from molecule_core.common.text import is_valid_client_id, truncate_line
from molecule_core.instructions.model import AgentProfile, MessageContext, RenderedText, TemplateVersionRef, Verbosity
from molecule_core.instructions.render import Renderer, agent_profile
from molecule_core.instructions.rules import REPLY_BY_HANDLE_TOOL, WRITE_TO_USER_TOOL, tool_name_for
from molecule_core.messages.model import ActivityPageRow
from molecule_core.messages.obligations.model import reply_due_at
from molecule_core.messages.obligations.reply_handles import make_handle
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Statement, StepRequest, Store, WriteSet
from molecule_core.wire.schemas.activity import Intent, MessageKind, attachments_of
from molecule_core.wire.schemas.agent_cards import REPLY_BY_RESPONSE, REPLY_COMMAND
from molecule_core.wire.schemas.envelope import Instructions, InstructionShape

# Longest id of another party that is put into a text.
_MAX_ID_LENGTH = 128
_RELEVANT_KEYS = ('"file"', '"user_id"', '"delegation_id"', '"approval_id"')


class InstructionOptions(Struct, frozen=True):
    """How an agent that fetches its mail wants its instructions.

    `in_envelope`: beside the message instead of in its text. `multi_workspace`: its process serves several workspaces,
    so it must name the answering one."""

    in_envelope: bool
    multi_workspace: bool = False


class LastInstructions(Struct, frozen=True):
    """The instructions that an agent saw last, in the column order of `last_instructions`.

    `template` is id@version (empty: none yet), `facts_key` identifies the static variables, `missed` says whether the
    agent left a message unanswered since."""

    template: str = ""
    static_key: str = ""
    missed: int = 0


_NO_LAST_INSTRUCTIONS = LastInstructions()


class RenderRecord(NamedTuple):
    """The stored record of the instructions of one message.

    `facts_key` identifies what stays equal from message to message."""

    org_id: str
    template: str
    version: int
    form: str
    tokens: int
    static_key: str

    @property
    def last_instructions(self) -> LastInstructions:
        """Return what the agent has seen after this record."""
        return LastInstructions(f"{self.template}@{self.version}", self.static_key, 0)


RenderedInstructions = tuple[Instructions, RenderRecord]


class InstructionBuilder:
    """Renders the instructions of messages.

    `shape` and `adaptive` are the deployment's settings. A server with instructions switched off has no builder."""

    def __init__(
        self,
        renderer: Renderer,
        org: OrgReader,
        store: Store,
        meter: InstructionMeter,
        *,
        limits: Limits,
        shape: InstructionShape,
        adaptive: bool,
    ) -> None:
        self._renderer = renderer
        self._org = org
        self._store = store
        self._meter = meter
        self._limits = limits
        self._shape = shape
        self._adaptive = adaptive
        self._profiles: dict[str, tuple[Workspace, AgentProfile]] = {}

    def shape(self, workspace: Workspace) -> str:
        """Return the instruction shape (json, xml or both); the workspace's setting overrides the deployment's."""
        return workspace.instruction_shape or self._shape

    # -- with a delivery -----------------------------------------------------------------------------------------------

    def render_batch(
        self,
        workspace: Workspace,
        rows: Iterable[ActivityPageRow],
        *,
        now: int,
        multi_workspace: bool = False,
        reminders: frozenset[str] = frozenset(),
    ) -> CommandSteps[list[RenderedInstructions | None]]:
        """Render the instructions of messages that are delivered together; the changes store what the agent has seen.

        `multi_workspace`: the agent's process serves several workspaces. `reminders`: ids of unanswered messages that
        are delivered again."""
        uses_last = self._uses_last(workspace)
        initial = state = (yield from load_last_instructions(workspace.id)) if uses_last else _NO_LAST_INSTRUCTIONS
        results: list[RenderedInstructions | None] = []
        for row in rows:
            due_at = self.reply_due_at(workspace, row, now)
            rendered = self.render(
                workspace, row, state, multi_workspace=multi_workspace, reminder=row.id in reminders, due_at=due_at
            )
            results.append(rendered)
            if rendered is not None:
                state, record = rendered[1].last_instructions, rendered[1]
                self._meter.count_delivery(workspace.runtime, record.template, record.form, record.tokens)
        has_changed = uses_last and state != initial
        return WriteSet(results, [save_last_instructions(workspace.id, state)] if has_changed else [])

    def attach(
        self,
        workspace: Workspace,
        rows: list[ActivityPageRow],
        now: int,
        options: InstructionOptions,
        reminders: frozenset[str] = frozenset(),
    ) -> CommandSteps[tuple[list[ActivityPageRow], dict[int, RenderRecord]]]:
        """Render a batch into its rows. Also returns the records by `seq`."""
        rendered = yield from self.render_batch(
            workspace, rows, now=now, multi_workspace=options.multi_workspace, reminders=reminders
        )
        pairs = list(zip(rows, rendered.result, strict=True))
        records = {row.seq: each[1] for row, each in pairs if each is not None}
        instructed = [replace(row, instructions=None if each is None else each[0]) for row, each in pairs]
        return rendered.returning((instructed, records))

    async def reset(self, workspace_id: str) -> None:
        """Send full instructions with the agent's next message. Raises NotFound, WorkspaceRemoved."""
        forget_write: Statement = ("forget_last_instructions", {"workspace_id": workspace_id})

        def decide() -> CommandSteps[None]:
            known = yield ReadQuery("last_instructions", {"workspace_id": workspace_id})
            return WriteSet(None, [forget_write] if known else [])

        org_id = self._org.active_workspace(workspace_id).org_id
        await self._store.run(Command(org_id, (("inbox", workspace_id),), decide))

    def _uses_last(self, workspace: Workspace) -> bool:
        """Return whether earlier instructions influence the next ones."""
        return self._adaptive and not workspace.instruction_compact

    def reply_due_at(self, workspace: Workspace, row: ActivityPageRow, now: int) -> int | None:
        """Return when an answer requested now is due (microseconds); None if none is, or no timer watches it.

        Delegations (with deadlines of hours) and approvals (which escalate) are not watched here."""
        if row.kind in (MessageKind.DELEGATION, MessageKind.APPROVAL_REQUEST) or row.intent != Intent.REQUEST:
            return None
        return reply_due_at(workspace, self._limits, now)

    # -- without a delivery --------------------------------------------------------------------------------------------

    async def load_last(self, workspace: Workspace) -> LastInstructions:
        """Return the last instructions of an agent, for reads that deliver nothing."""
        if not self._uses_last(workspace):
            return _NO_LAST_INSTRUCTIONS
        rows = await self._store.rows("last_instructions", {"workspace_id": workspace.id})
        return LastInstructions(*rows[0]) if rows else _NO_LAST_INSTRUCTIONS

    # -- one message ---------------------------------------------------------------------------------------------------

    def render(
        self,
        workspace: Workspace,
        row: ActivityPageRow,
        state: LastInstructions,
        *,
        multi_workspace: bool = False,
        reminder: bool = False,
        due_at: int | None = None,
    ) -> RenderedInstructions | None:
        """Render the instructions of one message for an agent with the state `state`.

        None: rendering failed, which the renderer has counted; no template error or bug may keep a message from its
        agent."""
        profile, choice = self.profile_of(workspace), None
        try:
            choice = self._renderer.choose_version(profile, row.id, row.inbound_no)
            key = self._renderer.static_key(profile, choice)
            form = Verbosity.FULL if reminder else self._choose_form(workspace, choice, key, state)
            context = self._message_context(
                workspace, row, multi_workspace=multi_workspace, reminder=reminder, due_at=due_at
            )
            content = self._renderer.render(profile, choice, form, context)
            if content is None:
                return None
            record = RenderRecord(choice.org_id, choice.template_id, choice.version, form.value, content.tokens, key)
            return _to_instructions(content, context, _reply_args(profile, row, context, content)), record
        except Exception as error:
            self._renderer.record_failure(profile, choice, error)
            return None

    def _choose_form(
        self, workspace: Workspace, choice: TemplateVersionRef, key: str, state: LastInstructions
    ) -> Verbosity:
        if workspace.instruction_compact:
            return Verbosity.COMPACT
        # A program behind a bridge is a new process for each message, which remembers nothing.
        if (
            not self._adaptive
            or self.profile_of(workspace).answers_by_command
            or state.missed
            or state.template != choice.name
        ):
            return Verbosity.FULL
        return Verbosity.COMPACT if state.static_key == key else Verbosity.DELTA

    def profile_of(self, workspace: Workspace) -> AgentProfile:
        """Return the agent's profile, cached until its workspace or agent card changes."""
        known = self._profiles.get(workspace.id)
        if known is not None and known[0] is workspace:
            return known[1]
        chosen, card = workspace.instruction_template_id, workspace.agent_card
        profile = agent_profile(workspace.id, workspace.org_id, workspace.runtime, chosen, card, workspace.uses_push)
        self._profiles[workspace.id] = (workspace, profile)
        return profile

    def _message_context(
        self, workspace: Workspace, row: ActivityPageRow, *, multi_workspace: bool, reminder: bool, due_at: int | None
    ) -> MessageContext:
        peer_id = row.source_id or ""
        peer = self._org.workspace(peer_id) if peer_id else None
        body = _parse_body(row.request_body)
        return MessageContext(
            kind=row.kind or "",
            peer_id=peer_id,
            peer_name="" if peer is None else peer.name,
            peer_role="" if peer is None else truncate_line(peer.role or "", self._limits.name_length),
            workspace_id=workspace.id,
            arrival_workspace_id=workspace.id if multi_workspace else "",
            reply_handle=_reply_handle(row, workspace.org_id),
            delegation_id=_delegation_id(row.kind, body.message.metadata.delegation_id),
            verified=_verified_word(row.kind, body.message.metadata.verified),
            restricted="yes" if row.kind == MessageKind.DELEGATION and body.message.metadata.may else "",
            user_id=_short_id(body.metadata.user_id) if row.kind == MessageKind.USER else "",
            intent=row.intent or "",
            due_at="" if due_at is None else to_rfc3339(due_at),
            attempt=row.attempt or 1,
            attachments=tuple(each.get("name") or "file" for each in attachments_of(list(body.message.parts))),
            reminder=reminder,
        )


def create_instruction_builder(
    settings: Settings, renderer: Renderer, org: OrgReader, store: Store, meter: InstructionMeter
) -> InstructionBuilder | None:
    """Return the instruction builder; None if instructions are switched off."""
    if not settings.push_instructions_enabled:
        return None
    shape, adaptive = settings.instruction_shape, settings.instruction_adaptive
    return InstructionBuilder(renderer, org, store, meter, limits=settings.limits, shape=shape, adaptive=adaptive)


# -- command steps -----------------------------------------------------------------------------------------------------


def load_last_instructions(workspace_id: str) -> Generator[StepRequest, Any, LastInstructions]:
    """Read the last instructions of an agent."""
    rows = yield ReadQuery("last_instructions", {"workspace_id": workspace_id})
    return LastInstructions(*rows[0]) if rows else _NO_LAST_INSTRUCTIONS


def save_last_instructions(workspace_id: str, state: LastInstructions) -> Statement:
    """Store the instructions that this agent saw last."""
    known = {"template": state.template, "facts": state.static_key, "missed": state.missed}
    return "save_last_instructions", {"workspace_id": workspace_id, **known}


# -- message bodies ----------------------------------------------------------------------------------------------------


class _MetadataShape(Struct, frozen=True):
    user_id: Any = None
    delegation_id: Any = None
    verified: Any = None
    may: Any = None
    approval_id: Any = None
    action_hash: Any = None


class _MessageShape(Struct, frozen=True):
    parts: tuple[Any, ...] = ()
    metadata: _MetadataShape = _MetadataShape()


class _BodyShape(Struct, frozen=True):
    message: _MessageShape = _MessageShape()
    metadata: _MetadataShape = _MetadataShape()


class _StoredBodyShape(Struct, frozen=True):
    params: _BodyShape = _BodyShape()


_BODY_DECODER = msgspec.json.Decoder(_StoredBodyShape)


def _parse_body(request_body: str | None) -> _BodyShape:
    """Parse the parts of a stored body that instructions use; empty if it has none."""
    if request_body is None or not any(word in request_body for word in _RELEVANT_KEYS):
        return _BodyShape()
    try:
        return _BODY_DECODER.decode(request_body).params
    except msgspec.ValidationError:
        return _BodyShape()


def _short_id(value: Any) -> str:
    return truncate_line(value, _MAX_ID_LENGTH) if isinstance(value, str) else ""


def _verified_word(kind: str | None, value: Any) -> str:
    if kind != MessageKind.DELEGATION_RESULT or not isinstance(value, bool):
        return ""
    return "yes" if value else "no"


def _delegation_id(kind: str | None, value: Any) -> str:
    """Return the id of the delegation that a message is about.

    Senders of other kinds may put anything into this field, and anything that is no valid id, so it is not repeated in
    our text."""
    is_delegation = (kind or "").startswith("delegation")
    return value if is_delegation and isinstance(value, str) and is_valid_client_id(value, _MAX_ID_LENGTH) else ""


def _reply_handle(row: ActivityPageRow, org_id: str) -> str:
    # An approval request is decided by its approval: there is nothing to use a handle for.
    if row.inbound_no is None or row.kind == MessageKind.APPROVAL_REQUEST:
        return ""
    return make_handle(org_id, row.source_id or "", row.workspace_id, row.context_id, row.id, row.seq)


def _reply_args(
    profile: AgentProfile, row: ActivityPageRow, context: MessageContext, content: RenderedText
) -> dict[str, str]:
    """Return the arguments of the tool that answers, beside the text: what names this message.

    Only the server writes approval requests, so their ids are the platform's."""
    if content.reply_via == REPLY_BY_RESPONSE:
        return {}
    if row.kind == MessageKind.APPROVAL_REQUEST:
        metadata = _parse_body(row.request_body).message.metadata
        named = {"approval_id": _short_id(metadata.approval_id), "action_hash": _short_id(metadata.action_hash)}
        return _with_workspace(named, "via_workspace", context)
    if content.reply_via in (REPLY_COMMAND, tool_name_for(REPLY_BY_HANDLE_TOOL, profile.runtime)):
        return _with_workspace({"handle": context.reply_handle}, "via_workspace", context)
    handle = {"reply_handle": context.reply_handle} if context.reply_handle else {}
    if content.reply_via == tool_name_for(WRITE_TO_USER_TOOL, profile.runtime):
        return _with_workspace(handle, "workspace_id", context)
    return _with_workspace({"peer_id": context.peer_id, **handle}, "workspace_id", context)


def _with_workspace(arguments: dict[str, str], name: str, context: MessageContext) -> dict[str, str]:
    """Return the arguments with the answering workspace, where the agent's process serves several."""
    return {**arguments, name: context.arrival_workspace_id} if context.arrival_workspace_id else arguments


def _to_instructions(content: RenderedText, context: MessageContext, args: dict[str, str]) -> Instructions:
    return Instructions(
        reply_via=content.reply_via,
        reply_args=args,
        stdout_warning=content.stdout_warning,
        docs_url=content.docs_url,
        available_tools=content.available_tools,
        template=content.template_ref.name,
        form=content.verbosity.value,
        text=content.text,
        tokens=content.tokens,
        reply_handle=context.reply_handle,
        due_at=context.due_at,
    )
