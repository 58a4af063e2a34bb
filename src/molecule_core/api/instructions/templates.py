"""Routes of instruction templates: owners choose, write and preview them."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.instructions.previews import HistoryPreviewBody, PreviewRenderer, TrialPreviewBody
from molecule_core.api.instructions.template_choices import TemplateChoices
from molecule_core.api.instructions.template_views import to_template_parts, to_version_view
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import AmbiguousTemplate, InvalidField, NotFound
from molecule_core.common.validation import validation_error_text
from molecule_core.instructions import rules
from molecule_core.instructions.model import ActiveVersion, Template, TemplateContent, TemplateDraft
from molecule_core.instructions.services import InstructionServices
from molecule_core.instructions.writer import TEMPLATE_NOUN
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.schemas.templates import (
    RenderedMessageList,
    SaveTemplateResponse,
    TemplateChoiceBody,
    TemplateDetail,
    TemplateParts,
    TemplatePreview,
    TemplateRow,
    TemplateVersion,
    WorkspaceTemplate,
)

# These are path segments where a template's id would be, so they cannot be ids.
_RESERVED_IDS = ("preview", "render")


class SaveTemplateBody(Struct, forbid_unknown_fields=True):
    """A new version of a template.

    `extends` left out: unchanged; of a new template, that of the workspace's runtime. `in_force`: whether messages use
    it from now on.
    """

    parts: TemplateParts
    runtime: str | None = None
    extends: str | UnsetType | None = UNSET
    note: str | None = None
    in_force: bool = True


class CreateTemplateBody(SaveTemplateBody, forbid_unknown_fields=True, kw_only=True):
    """A new template, or a new version of an existing one."""

    id: str


class RestoreVersionBody(Struct, forbid_unknown_fields=True):
    """The version to activate. `built_in`: whether Molecule's is meant, if the organisation's has the same number."""

    version: Annotated[int, Meta(ge=1, lt=1 << 53)]
    built_in: bool | None = None


class InstructionRoutes:
    """Routes of templates, all for owners: a template speaks to agents in the server's name."""

    def __init__(
        self, layer: InstructionServices, org: OrgReader, org_writer: OrgWriter, previews: PreviewRenderer
    ) -> None:
        self._writer = layer.writer
        self._reader = layer.reader
        self._org = org
        self._org_writer = org_writer
        self._previews = previews
        self._choices = TemplateChoices(layer.reader)

    def routes(self) -> list[Route]:
        """Return the routes."""
        owner, workspace = (
            AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OWNER),
            AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OWNER),
        )
        of_workspace, every = "/cp/admin/workspace/{id}/instruction-template", "/orgs/{org_id}/instruction-templates"
        one = f"{every}/{{template_id}}"
        return [
            Route(
                "POST",
                of_workspace,
                self.assign_template,
                workspace,
                "Set the template of a workspace",
                TemplateChoiceBody,
                WorkspaceTemplate,
            ),
            Route(
                "GET",
                of_workspace,
                self.get_assigned_template,
                workspace,
                "Get the template of a workspace",
                None,
                WorkspaceTemplate,
            ),
            Route(
                "DELETE",
                of_workspace,
                self.unassign_template,
                workspace,
                "Reset the template of a workspace",
                None,
                WorkspaceTemplate,
            ),
            Route("GET", every, self.list_templates, owner, "List instruction templates", None, list[TemplateRow]),
            Route(
                "POST",
                every,
                self.create_template,
                owner,
                "Create an instruction template",
                CreateTemplateBody,
                SaveTemplateResponse,
                201,
            ),
            Route(
                "POST",
                f"{every}/preview",
                self._previews.preview_trial,
                owner,
                "Preview a template with an example message",
                TrialPreviewBody,
                TemplatePreview,
            ),
            Route(
                "POST",
                f"{every}/render",
                self._previews.preview_history,
                owner,
                "Preview a template with the latest messages",
                HistoryPreviewBody,
                RenderedMessageList,
            ),
            Route("GET", one, self.get_template, owner, "Get an instruction template", None, TemplateDetail),
            Route(
                "PUT",
                one,
                self.save_template,
                owner,
                "Save a new version of a template",
                SaveTemplateBody,
                SaveTemplateResponse,
            ),
            Route(
                "DELETE",
                one,
                self.remove_template,
                owner,
                "Delete a template",
                None,
                None,
                204,
            ),
            Route(
                "GET",
                f"{one}/versions",
                self.list_versions,
                owner,
                "List the versions of a template",
                None,
                list[TemplateVersion],
            ),
            Route(
                "POST",
                f"{one}/restore",
                self.restore_version,
                owner,
                "Activate a version of a template",
                RestoreVersionBody,
                TemplateRow,
            ),
        ]

    # -- one workspace -------------------------------------------------------------------------------------------------

    async def assign_template(self, request: Request) -> Response:
        """Choose the template of a workspace.

        `inline_template` is a text in addition to the template of the runtime, or an object of parts.
        """
        body, workspace = request.parse_body(TemplateChoiceBody), request.workspace
        if (body.template_id is None) == (body.inline_template is None):
            raise AmbiguousTemplate
        chosen, warnings = body.template_id or "", list[str]()
        if body.inline_template is not None:
            chosen = f"{rules.WORKSPACE_TEMPLATE_PREFIX}{workspace.id}"
            draft = TemplateDraft(_inline_parts(body.inline_template))
            _, warnings = await self._writer.save_template(workspace.org_id, chosen, draft, request.caller.key)
        else:
            self._choices.check(request.caller, workspace.org_id, chosen, None)
        return self._assigned_response(await self._set_template(workspace, chosen), warnings)

    async def get_assigned_template(self, request: Request) -> Response:
        """Return the active template, and whether the workspace has chosen it."""
        return self._assigned_response(request.workspace, [])

    async def unassign_template(self, request: Request) -> Response:
        """Reset a workspace to the template of its runtime, and delete its inline template."""
        workspace = await self._set_template(request.workspace, None)
        own = self._reader.own_active_version(workspace.org_id, f"{rules.WORKSPACE_TEMPLATE_PREFIX}{workspace.id}")
        if own is not None and own.removed_at is None:
            await self._writer.remove_template(workspace.org_id, own.id, request.caller.key)
        return self._assigned_response(workspace, [])

    async def _set_template(self, workspace: Workspace, chosen: str | None) -> Workspace:
        if workspace.instruction_template_id == chosen:
            return workspace
        return await self._org_writer.update_workspace(workspace.id, {"instruction_template_id": chosen})

    def _assigned_response(self, workspace: Workspace, warnings: list[str]) -> Response:
        chosen, org_id = workspace.instruction_template_id, workspace.org_id
        found = (chosen and self._reader.find_active_template(org_id, chosen)) or self._reader.find_active_template(
            org_id, rules.default_template_id(workspace.runtime)
        )
        if not found:
            raise NotFound(what=TEMPLATE_NOUN)
        own = found.id == chosen
        inline = (
            found.parts.lines[0]
            if own and found.id.startswith(rules.WORKSPACE_TEMPLATE_PREFIX) and _is_inline_text(found.parts)
            else None
        )
        assignment = WorkspaceTemplate(workspace.id, chosen if own else None, to_version_view(found), inline, warnings)
        return json_response(assignment)

    # -- organisation --------------------------------------------------------------------------------------------------

    async def list_templates(self, request: Request) -> Response:
        """List templates in the order of their ids, including those of single workspaces."""
        org_id = request.path_params["org_id"]
        rows = [
            self._template_row(template, active, org_id) for template, active in self._reader.active_templates(org_id)
        ]
        return json_response(rows)

    async def create_template(self, request: Request) -> Response:
        """Create a template, or a new version of an existing one."""
        body = request.parse_body(CreateTemplateBody)
        return await self._save_version(request, body.id, body, 201)

    async def save_template(self, request: Request) -> Response:
        """Save a new version. If the template is built in, the organisation has its own version from then on."""
        return await self._save_version(
            request, request.path_params["template_id"], request.parse_body(SaveTemplateBody), 200
        )

    async def _save_version(self, request: Request, template_id: str, body: SaveTemplateBody, status: int) -> Response:
        if template_id in _RESERVED_IDS:
            raise InvalidField(reason=f"a template cannot have the id {template_id}. Choose another id.")
        org_id = request.path_params["org_id"]
        before = self._reader.find_active_template(org_id, template_id)
        defaults = (
            TemplateDraft(TemplateContent())
            if before is None
            else TemplateDraft(TemplateContent(), before.runtime, before.extends)
        )
        draft = TemplateDraft(
            to_template_parts(body.parts),
            defaults.runtime if body.runtime is None else body.runtime,
            defaults.extends if body.extends is UNSET else body.extends,
            body.note,
        )
        template, warnings = await self._writer.save_template(
            org_id, template_id, draft, request.caller.key, activate=body.in_force
        )
        return json_response(SaveTemplateResponse(to_version_view(template), warnings), status)

    async def get_template(self, request: Request) -> Response:
        """Return the active version of a template."""
        org_id, template_id = request.path_params["org_id"], request.path_params["template_id"]
        template, active = self._active_template(org_id, template_id)
        chain, _ = rules.inheritance_chain(
            template,
            lambda id_: self._reader.find_active_template(org_id, id_),
            default_id=rules.default_template_id(template.runtime),
        )
        base = msgspec.convert(msgspec.to_builtins(rules.merge_content(chain[:-1])), TemplateParts)
        return json_response(TemplateDetail(self._template_row(template, active, org_id), base))

    async def remove_template(self, request: Request) -> Response:
        """Delete a template. Rejected while a workspace uses it or another template extends it."""
        org_id, template_id = request.path_params["org_id"], request.path_params["template_id"]
        users = [each for each in self._org.workspaces(org_id) if each.instruction_template_id == template_id]
        await self._writer.remove_template(
            org_id, template_id, request.caller.key, users=tuple(each.name for each in users)
        )
        return Response(b"", 204)

    async def list_versions(self, request: Request) -> Response:
        """List versions, newest first, including built-in ones."""
        org_id, template_id = request.path_params["org_id"], request.path_params["template_id"]
        self._active_template(org_id, template_id)
        return json_response([to_version_view(each) for each in self._reader.list_versions(org_id, template_id)])

    async def restore_version(self, request: Request) -> Response:
        """Activate a version from the next message on, and end the trial of any other version."""
        org_id, template_id = request.path_params["org_id"], request.path_params["template_id"]
        body = request.parse_body(RestoreVersionBody)
        await self._writer.restore_version(
            org_id, template_id, body.version, request.caller.key, built_in=body.built_in
        )
        return json_response(self._template_row(*self._active_template(org_id, template_id), org_id))

    def _active_template(self, org_id: str, template_id: str) -> tuple[Template, ActiveVersion]:
        template, active = (
            self._reader.find_active_template(org_id, template_id),
            self._reader.active_version(org_id, template_id),
        )
        if template is None or active is None:
            raise NotFound(what=TEMPLATE_NOUN)
        return template, active

    def _template_row(self, template: Template, active: ActiveVersion, org_id: str) -> TemplateRow:
        workspaces = self._org.workspaces(org_id)
        chosen = [workspace for workspace in workspaces if workspace.instruction_template_id == template.id]
        others = [workspace for workspace in workspaces if not self._has_own_template(workspace)]
        defaults = [workspace for workspace in others if rules.default_template_id(workspace.runtime) == template.id]
        edited = active.org_id == org_id and template.id in rules.DEFAULT_IDS
        return TemplateRow(
            to_version_view(template),
            active.canary,
            active.percent,
            to_rfc3339(active.since),
            edited,
            len(chosen),
            len(defaults),
        )

    def _has_own_template(self, workspace: Workspace) -> bool:
        chosen = workspace.instruction_template_id
        return chosen is not None and self._reader.active_version(workspace.org_id, chosen) is not None


def _is_inline_text(parts: TemplateContent) -> bool:
    return parts == TemplateContent(lines=parts.lines) and len(parts.lines) == 1


def _inline_parts(body: str | dict[str, Any]) -> TemplateContent:
    if isinstance(body, dict):
        try:
            return msgspec.convert(body, TemplateContent)
        except msgspec.ValidationError as error:
            raise InvalidField(
                reason=validation_error_text(error, value=body, shape=TemplateContent, subject="inline_template")
            ) from None
    if not body.strip():
        raise InvalidField(reason="inline_template cannot be empty. Use DELETE to remove the template of a workspace.")
    return TemplateContent(lines=(body,))
