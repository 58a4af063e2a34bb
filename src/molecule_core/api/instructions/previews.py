"""Renders previews of instructions: for an example message, or for the latest stored messages."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from molecule_core.api.http.response import Response
from molecule_core.api.instructions.template_views import to_template_parts
from molecule_core.api.routing import Request, json_response
from molecule_core.common.errors import AmbiguousTemplate, InvalidField, NotFound
from molecule_core.instructions import rules
from molecule_core.instructions.model import (
    AgentProfile,
    MessageContext,
    RenderedText,
    TemplateContent,
    TemplateDraft,
    TemplateVersionRef,
    Verbosity,
)
from molecule_core.instructions.render import Renderer, agent_profile
from molecule_core.instructions.services import InstructionServices
from molecule_core.instructions.validation import EXAMPLE_MESSAGE
from molecule_core.instructions.writer import TEMPLATE_NOUN
from molecule_core.messages.model import ActivityFilters, ActivityPageRow
from molecule_core.messages.obligations.reply_handles import make_handle
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.wire.schemas.activity import ActivityType, MessageKind
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from molecule_core.wire.schemas.templates import RenderedMessage, RenderedMessageList, TemplateParts, TemplatePreview

PreviewKind = Literal[
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
_REQUEST_KINDS = ("canvas_user", "peer_agent", "delegation", "approval_request")
# Their deadlines are their own: their messages have no due time.
_UNWATCHED_KINDS = (MessageKind.DELEGATION, MessageKind.APPROVAL_REQUEST)
_EXAMPLE_PEER_ID = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
_MAX_MESSAGES = 50


class TemplateSelectionBody(Struct, forbid_unknown_fields=True):
    """The template to render.

    A saved one (`template_id`, with a `version` or the active one) or an unsaved one (`inline_template` or `parts`);
    without any, the workspace's. `extends` as in a saved template.
    """

    workspace_id: str | None = None
    template_id: str | None = None
    version: int | None = None
    inline_template: str | None = None
    parts: TemplateParts | None = None
    extends: str | UnsetType | None = UNSET
    form: Verbosity = Verbosity.FULL


class TrialPreviewBody(TemplateSelectionBody, forbid_unknown_fields=True, kw_only=True):
    """The example message to render a template for.

    Without a workspace: for an agent of this runtime that has all tools. `several`: its process
    serves several workspaces.
    """

    kind: PreviewKind = "canvas_user"
    intent: Literal["request", "inform", "ack"] | None = None
    runtime: str = "generic-mcp"
    attachments: list[str] = []
    reminder: bool = False
    several: bool = False


class HistoryPreviewBody(TemplateSelectionBody, forbid_unknown_fields=True, kw_only=True):
    """How many of the workspace's latest messages to render a template for."""

    last: Annotated[int, Meta(ge=1, le=_MAX_MESSAGES)] = 10


class _ResolvedTemplate(Struct, frozen=True):
    """A renderer, the version that it is to render, and warnings for the template's author."""

    renderer: Renderer
    version_ref: TemplateVersionRef
    warnings: list[str]


class PreviewRenderer:
    """Renderer of previews. Nothing is delivered."""

    def __init__(
        self,
        layer: InstructionServices,
        org: OrgReader,
        messages: MessageReader,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        """Initialize the renderer. `catch_up`: updates caches with what other processes saved a moment ago."""
        self._renderer = layer.renderer
        self._reader = layer.reader
        self._writer = layer.writer
        self._validator = layer.validator
        self._org = org
        self._messages = messages
        self._catch_up = catch_up

    async def preview_trial(self, request: Request) -> Response:
        """Render a template for an example message. `text` is byte for byte what an agent would receive."""
        body = request.parse_body(TrialPreviewBody)
        await self._catch_up()
        profile = self._agent_profile(request.path_params["org_id"], body.workspace_id, body.runtime)
        resolved = self._resolve_template(profile, body)
        intent = body.intent or ("request" if body.kind in _REQUEST_KINDS else "inform")
        is_watched = intent == "request" and body.kind not in _UNWATCHED_KINDS
        context = replace(
            EXAMPLE_MESSAGE,
            kind=body.kind,
            intent=intent,
            due_at=EXAMPLE_MESSAGE.due_at if is_watched else "",
            reply_handle="" if body.kind == "approval_request" else EXAMPLE_MESSAGE.reply_handle,
            peer_id="" if body.kind == "canvas_user" else _EXAMPLE_PEER_ID,
            workspace_id=profile.workspace_id,
            arrival_workspace_id=profile.workspace_id if body.several else "",
            delegation_id=_EXAMPLE_PEER_ID if body.kind.startswith("delegation") else "",
            attachments=tuple(body.attachments[:10]),
            reminder=body.reminder,
        )
        rendered = _render_or_reject(resolved, profile, body.form, context)
        return json_response(
            TemplatePreview(
                template=rendered.template_ref.name,
                form=rendered.verbosity.value,
                text=rendered.text,
                tokens=rendered.tokens,
                bytes=len(rendered.text.encode()),
                reply_via=rendered.reply_via,
                docs_url=rendered.docs_url,
                stdout_warning=rendered.stdout_warning,
                available_tools=list(rendered.available_tools),
                warnings=resolved.warnings,
            )
        )

    async def preview_history(self, request: Request) -> Response:
        """Render a template for the latest messages. Nothing is delivered or stored."""
        body = request.parse_body(HistoryPreviewBody)
        if body.workspace_id is None:
            raise InvalidField(reason="workspace_id is missing. Add it.")
        await self._catch_up()
        workspace = self._workspace_in_org(request.path_params["org_id"], body.workspace_id)
        profile = _profile_of(workspace)
        resolved = self._resolve_template(profile, body)
        rows = await self._messages.list_newest(
            workspace.id, ActivityFilters(activity_type=ActivityType.RECEIVE), body.last
        )
        found = [self._rendered_message(row, workspace, _renderer_for(resolved, profile, body.form)) for row in rows]
        return json_response(RenderedMessageList(resolved.version_ref.name, body.form.value, found, resolved.warnings))

    def _rendered_message(
        self, row: ActivityPageRow, workspace: Workspace, render: Callable[[MessageContext], RenderedText | None]
    ) -> RenderedMessage:
        presented = self._messages.to_activity_row(row, with_peer=True, with_files=True)
        files: list[dict[str, Any]] = presented.attachments or []
        context = MessageContext(
            kind=row.kind or "",
            intent=row.intent or "",
            peer_id=row.source_id or "",
            peer_name=presented.peer_name or "",
            peer_role=presented.peer_role or "",
            workspace_id=workspace.id,
            reply_handle=make_handle(
                workspace.org_id, row.source_id or "", workspace.id, row.context_id, row.id, row.seq
            ),
            attachments=tuple(str(each.get("name") or "file") for each in files),
        )
        rendered = render(context)
        return RenderedMessage(
            activity_id=row.id,
            kind=row.kind or "",
            summary=row.summary,
            created_at=presented.created_at,
            text=None if rendered is None else rendered.text,
            tokens=0 if rendered is None else rendered.tokens,
        )

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _workspace_in_org(self, org_id: str, workspace_id: str) -> Workspace:
        found = self._org.workspace(workspace_id)
        if found is None or found.org_id != org_id or found.removed:
            raise NotFound(what="workspace")
        return found

    def _agent_profile(self, org_id: str, workspace_id: str | None, runtime: str) -> AgentProfile:
        if workspace_id is not None:
            return _profile_of(self._workspace_in_org(org_id, workspace_id))
        return AgentProfile(EXAMPLE_MESSAGE.workspace_id, org_id, runtime, None, ALL_TOOL_NAMES, has_tool_list=True)

    def _resolve_template(self, profile: AgentProfile, body: TemplateSelectionBody) -> _ResolvedTemplate:
        """Find the template to render. Raises AmbiguousTemplate, NotFound, InvalidTemplate, InvalidField."""
        inline = [each for each in (body.inline_template, body.parts) if each is not None]
        if len(inline) > 1 or (body.inline_template is not None and body.template_id is not None):
            raise AmbiguousTemplate
        if inline:
            return self._resolve_inline(profile, body)
        if body.template_id is None:
            return _ResolvedTemplate(self._renderer, self._renderer.choose_version(profile, ""), [])
        chosen = self._reader.active_version(profile.org_id, body.template_id)
        version = None if chosen is None else (body.version or chosen.version)
        found = None if version is None else self._reader.find_version(profile.org_id, body.template_id, version)
        if found is None:
            raise NotFound(what=TEMPLATE_NOUN)
        return _ResolvedTemplate(self._renderer, found.ref, [])

    def _resolve_inline(self, profile: AgentProfile, body: TemplateSelectionBody) -> _ResolvedTemplate:
        template_id = body.template_id or f"{rules.WORKSPACE_TEMPLATE_PREFIX}{profile.workspace_id}"
        previous = self._reader.find_active_template(profile.org_id, template_id)
        parts = (
            TemplateContent(lines=(body.inline_template or "",))
            if body.parts is None
            else to_template_parts(body.parts)
        )
        draft = TemplateDraft(parts)
        if body.extends is not UNSET:
            draft = replace(draft, extends=body.extends)
        elif body.template_id is not None and previous is not None:
            draft = replace(draft, extends=previous.extends)
        template = self._writer.build_candidate(profile.org_id, template_id, draft, "")
        warnings = self._validator.validate_template(template)
        return _ResolvedTemplate(self._validator.candidate_renderer(template), template.ref, warnings)


def _profile_of(workspace: Workspace) -> AgentProfile:
    chosen, card = workspace.instruction_template_id, workspace.agent_card
    return agent_profile(workspace.id, workspace.org_id, workspace.runtime, chosen, card, workspace.uses_push)


def _renderer_for(
    resolved: _ResolvedTemplate, profile: AgentProfile, form: Verbosity
) -> Callable[[MessageContext], RenderedText | None]:
    return lambda context: resolved.renderer.render(profile, resolved.version_ref, form, context)


def _render_or_reject(
    resolved: _ResolvedTemplate, profile: AgentProfile, form: Verbosity, context: MessageContext
) -> RenderedText:
    """Render a template for a message. Raises InvalidField if the text is too long."""
    rendered = resolved.renderer.render(profile, resolved.version_ref, form, context)
    if rendered is None:
        raise InvalidField(
            reason="the instructions of this template for this message exceed the limit. Shorten the template."
        )
    return rendered
