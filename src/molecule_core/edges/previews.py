"""What an agent would be told: with a message that might come, and with those that came last."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from molecule_core.edges.routes import Answer, Call, json_answer
from molecule_core.edges.templates import parts_of
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.refusals import NotOneTemplate
from molecule_core.instructions import rules
from molecule_core.instructions.checking import EXAMPLE
from molecule_core.instructions.layer import InstructionLayer
from molecule_core.instructions.model import Choice, Draft, Facts, Form, Parts, Rendered, Seat
from molecule_core.instructions.render import Renderer, seat_of
from molecule_core.instructions.writer import WHAT
from molecule_core.messages.handles import handle_of
from molecule_core.messages.model import RECEIVE, Filters, Shown
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.wire.templates import Preview, RenderedMessage, RenderedMessages, TemplateParts

Kind = Literal[
    "canvas_user",
    "peer_agent",
    "delegation",
    "delegation_result",
    "approval_request",
    "approval_decision",
    "broadcast",
    "chat_upload_receive",
    "system",
]
_ASKS = ("canvas_user", "peer_agent", "delegation", "approval_request")
_PEER = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
_MOST_MESSAGES = 50


class Wanted(Struct, forbid_unknown_fields=True):
    """Which template: one that is saved (`template_id`, in a `version` or the one in force), or one that is being
    written (`inline_template` or `parts`); without any, the workspace's. `extends` as in a saved one."""

    workspace_id: str | None = None
    template_id: str | None = None
    version: int | None = None
    inline_template: str | None = None
    parts: TemplateParts | None = None
    extends: str | UnsetType | None = UNSET
    form: Form = Form.FULL


class Try(Wanted, forbid_unknown_fields=True, kw_only=True):
    """For which message. Without a workspace: an agent of this runtime that has all tools. `several`: its process sits
    in more workspaces."""

    kind: Kind = "canvas_user"
    intent: Literal["request", "inform", "ack"] | None = None
    runtime: str = "generic-mcp"
    attachments: list[str] = []
    reminder: bool = False
    several: bool = False


class Same(Wanted, forbid_unknown_fields=True, kw_only=True):
    """For how many of the workspace's last messages."""

    last: Annotated[int, Meta(ge=1, le=_MOST_MESSAGES)] = 10


class _Spoken(Struct, frozen=True):
    """Who speaks with which version, and what its author may not have meant."""

    renderer: Renderer
    choice: Choice
    warnings: list[str]


class Previews:
    """Renders what nobody is told."""

    def __init__(
        self,
        layer: InstructionLayer,
        org: OrgReader,
        messages: MessageReader,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        """`catch_up`: brings memory up to date with what other processes have saved a moment ago."""
        self._renderer = layer.renderer
        self._reader = layer.reader
        self._writer = layer.writer
        self._checks = layer.checks
        self._org = org
        self._messages = messages
        self._catch_up = catch_up

    async def preview(self, call: Call) -> Answer:
        """`text` is byte for byte what an agent would get."""
        said = call.read(Try)
        await self._catch_up()
        seat = self._seat(call.params["org_id"], said.workspace_id, said.runtime)
        spoken = self._spoken(seat, said)
        facts = replace(
            EXAMPLE,
            kind=said.kind,
            intent=said.intent or ("request" if said.kind in _ASKS else "inform"),
            peer_id="" if said.kind == "canvas_user" else _PEER,
            workspace_id=seat.workspace_id,
            arrival_workspace_id=seat.workspace_id if said.several else "",
            delegation_id=_PEER if said.kind.startswith("delegation") else "",
            attachments=tuple(said.attachments[:10]),
            reminder=said.reminder,
        )
        made = _rendered(spoken, seat, said.form, facts)
        return json_answer(
            Preview(
                template=made.choice.name,
                form=made.form.value,
                text=made.text,
                tokens=made.tokens,
                bytes=len(made.text.encode()),
                reply_via=made.reply_via,
                docs_url=made.docs_url,
                stdout_warning=made.stdout_warning,
                available_tools=list(made.available_tools),
                warnings=spoken.warnings,
            )
        )

    async def last(self, call: Call) -> Answer:
        """Nothing of it is told or kept."""
        said = call.read(Same)
        if said.workspace_id is None:
            raise InvalidField(reason="workspace_id is missing: whose last messages?")
        await self._catch_up()
        workspace = self._workspace(call.params["org_id"], said.workspace_id)
        seat = _seat_of(workspace)
        spoken = self._spoken(seat, said)
        rows = await self._messages.newest(workspace.id, Filters(activity_type=RECEIVE), said.last)
        found = [self._message(row, workspace, _of(spoken, seat, said.form)) for row in rows]
        return json_answer(RenderedMessages(spoken.choice.name, said.form.value, found, spoken.warnings))

    def _message(self, row: Shown, workspace: Workspace, render: Callable[[Facts], Rendered | None]) -> RenderedMessage:
        shown = self._messages.show(row, with_peer=True, with_files=True)
        files: list[dict[str, Any]] = shown.attachments or []
        facts = Facts(
            kind=row.kind or "",
            intent=row.intent or "",
            peer_id=row.source_id or "",
            peer_name=shown.peer_name or "",
            peer_role=shown.peer_role or "",
            workspace_id=workspace.id,
            reply_handle=handle_of(
                workspace.org_id, row.source_id or "", workspace.id, row.context_id, row.id, row.seq
            ),
            attachments=tuple(str(each.get("name") or "file") for each in files),
        )
        made = render(facts)
        return RenderedMessage(
            activity_id=row.id,
            kind=row.kind or "",
            summary=row.summary,
            created_at=shown.created_at,
            text=None if made is None else made.text,
            tokens=0 if made is None else made.tokens,
        )

    # -- who, and with what --------------------------------------------------------------------------------------------

    def _workspace(self, org_id: str, workspace_id: str) -> Workspace:
        found = self._org.workspace(workspace_id)
        if found is None or found.org_id != org_id or found.removed:
            raise NotFound(what="workspace")
        return found

    def _seat(self, org_id: str, workspace_id: str | None, runtime: str) -> Seat:
        if workspace_id is not None:
            return _seat_of(self._workspace(org_id, workspace_id))
        return Seat(EXAMPLE.workspace_id, org_id, runtime, None, rules.KNOWN_TOOLS, known_tools=True)

    def _spoken(self, seat: Seat, said: Wanted) -> _Spoken:
        """Raises NotOneTemplate, NotFound, InvalidTemplate, InvalidField."""
        written = [each for each in (said.inline_template, said.parts) if each is not None]
        if len(written) > 1 or (said.inline_template is not None and said.template_id is not None):
            raise NotOneTemplate
        if written:
            return self._written(seat, said)
        if said.template_id is None:
            return _Spoken(self._renderer, self._renderer.choose(seat, ""), [])
        chosen = self._reader.choice(seat.org_id, said.template_id)
        version = None if chosen is None else (said.version or chosen.version)
        found = None if version is None else self._reader.version(seat.org_id, said.template_id, version)
        if found is None:
            raise NotFound(what=WHAT)
        return _Spoken(self._renderer, found.choice, [])

    def _written(self, seat: Seat, said: Wanted) -> _Spoken:
        template_id = said.template_id or f"{rules.INLINE}{seat.workspace_id}"
        before = self._reader.find(seat.org_id, template_id)
        parts = Parts(lines=(said.inline_template or "",)) if said.parts is None else parts_of(said.parts)
        draft = Draft(parts)
        if said.extends is not UNSET:
            draft = replace(draft, extends=said.extends)
        elif said.template_id is not None and before is not None:
            draft = replace(draft, extends=before.extends)
        template = self._writer.candidate(seat.org_id, template_id, draft, "")
        warnings = self._checks.check(template)
        return _Spoken(self._checks.trial(template), template.choice, warnings)


def _seat_of(workspace: Workspace) -> Seat:
    chosen, card = workspace.instruction_template_id, workspace.agent_card
    return seat_of(workspace.id, workspace.org_id, workspace.runtime, chosen, card)


def _of(spoken: _Spoken, seat: Seat, form: Form) -> Callable[[Facts], Rendered | None]:
    return lambda facts: spoken.renderer.render(seat, spoken.choice, form, facts)


def _rendered(spoken: _Spoken, seat: Seat, form: Form, facts: Facts) -> Rendered:
    """Raises InvalidField."""
    made = spoken.renderer.render(seat, spoken.choice, form, facts)
    if made is None:
        raise InvalidField(reason="this template says more about this message than instructions may hold")
    return made
