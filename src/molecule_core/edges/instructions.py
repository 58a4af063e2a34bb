"""Templates of instructions: owners choose, write and try them."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from molecule_core.access.model import Role
from molecule_core.edges.previews import Previews, Same, Try
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.templates import parts_of, version_view
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.refusals import NotOneTemplate
from molecule_core.instructions import rules
from molecule_core.instructions.layer import InstructionLayer
from molecule_core.instructions.model import Draft, InForce, Parts, Template
from molecule_core.instructions.writer import WHAT
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.templates import (
    Preview,
    RenderedMessages,
    SavedTemplate,
    TemplateChoice,
    TemplateDetail,
    TemplateParts,
    TemplateRow,
    TemplateVersion,
    WorkspaceTemplate,
)

# What stands where a template's id does, and so cannot be one.
_TAKEN = ("preview", "render")


class Save(Struct, forbid_unknown_fields=True):
    """A new version. `extends` left out: as before; of a new template that of the workspace's runtime. `in_force`:
    whether messages are told with it from now on."""

    parts: TemplateParts
    runtime: str | None = None
    extends: str | UnsetType | None = UNSET
    note: str | None = None
    in_force: bool = True


class New(Save, forbid_unknown_fields=True, kw_only=True):
    """A new template, or a new version of one."""

    id: str


class Restore(Struct, forbid_unknown_fields=True):
    """Which version is to be in force. `built_in`: whether Molecule's is meant, where yours has the same number."""

    version: Annotated[int, Meta(ge=1, lt=1 << 53)]
    built_in: bool | None = None


class InstructionEdge:
    """The routes of templates. All of them are for owners: a template speaks to agents in the server's name."""

    def __init__(self, layer: InstructionLayer, org: OrgReader, org_writer: OrgWriter, previews: Previews) -> None:
        self._writer = layer.writer
        self._reader = layer.reader
        self._org = org
        self._org_writer = org_writer
        self._previews = previews

    def routes(self) -> list[Route]:
        """The rows for the table."""
        owner, seat = Who(PEOPLE, Reach.NONE, Role.OWNER), Who(PEOPLE, Reach.OWN, Role.OWNER)
        of_seat, every = "/cp/admin/workspace/{id}/instruction-template", "/orgs/{org_id}/instruction-templates"
        one = f"{every}/{{template_id}}"
        return [
            Route(
                "POST", of_seat, self.assign, seat, "Choose a workspace's template", TemplateChoice, WorkspaceTemplate
            ),
            Route("GET", of_seat, self.assigned, seat, "A workspace's template", None, WorkspaceTemplate),
            Route("DELETE", of_seat, self.unassign, seat, "Back to the runtime's template", None, WorkspaceTemplate),
            Route("GET", every, self.list, owner, "The templates of an organisation", None, list[TemplateRow]),
            Route("POST", every, self.create, owner, "Make a template", New, SavedTemplate, 201),
            Route("POST", f"{every}/preview", self._previews.preview, owner, "What would be said", Try, Preview),
            Route(
                "POST", f"{every}/render", self._previews.last, owner, "The same, last messages", Same, RenderedMessages
            ),
            Route("GET", one, self.show, owner, "One template", None, TemplateDetail),
            Route("PUT", one, self.save, owner, "Save a new version", Save, SavedTemplate),
            Route("DELETE", one, self.remove, owner, "Delete a template, or take the original again", None, None, 204),
            Route("GET", f"{one}/versions", self.versions, owner, "All versions", None, list[TemplateVersion]),
            Route("POST", f"{one}/restore", self.restore, owner, "Put a version in force", Restore, TemplateRow),
        ]

    # -- of one workspace ----------------------------------------------------------------------------------------------

    async def assign(self, call: Call) -> Answer:
        """`inline_template` is a text beside what the runtime's template says, or an object of parts."""
        said, workspace = call.read(TemplateChoice), call.target
        if (said.template_id is None) == (said.inline_template is None):
            raise NotOneTemplate
        chosen, warnings = said.template_id or "", list[str]()
        if said.inline_template is not None:
            chosen = f"{rules.INLINE}{workspace.id}"
            draft = Draft(_inline(said.inline_template))
            _, warnings = await self._writer.save(workspace.org_id, chosen, draft, _name_of(call))
        elif self._reader.find(workspace.org_id, chosen) is None:
            raise NotFound(what=WHAT)
        return self._assigned(await self._change(workspace, chosen), warnings)

    async def assigned(self, call: Call) -> Answer:
        """What is in force, and whether it is the workspace's own choice."""
        return self._assigned(call.target, [])

    async def unassign(self, call: Call) -> Answer:
        """Its inline template, if it has one, is deleted."""
        workspace = await self._change(call.target, None)
        own = self._reader.own(workspace.org_id, f"{rules.INLINE}{workspace.id}")
        if own is not None and own.removed_at is None:
            await self._writer.remove(workspace.org_id, own.id, _name_of(call))
        return self._assigned(workspace, [])

    async def _change(self, workspace: Workspace, chosen: str | None) -> Workspace:
        if workspace.instruction_template_id == chosen:
            return workspace
        return await self._org_writer.change(workspace.id, {"instruction_template_id": chosen})

    def _assigned(self, workspace: Workspace, warnings: list[str]) -> Answer:
        chosen, org_id = workspace.instruction_template_id, workspace.org_id
        found = (chosen and self._reader.find(org_id, chosen)) or self._reader.find(
            org_id, rules.default_of(workspace.runtime)
        )
        if not found:
            raise NotFound(what=WHAT)
        own = found.id == chosen
        inline = found.parts.lines[0] if own and found.id.startswith(rules.INLINE) and _is_text(found.parts) else None
        seen = WorkspaceTemplate(workspace.id, chosen if own else None, version_view(found), inline, warnings)
        return json_answer(seen)

    # -- of an organisation --------------------------------------------------------------------------------------------

    async def list(self, call: Call) -> Answer:
        """In the order of their ids; those of single workspaces too."""
        org_id = call.params["org_id"]
        rows = [self._row(template, choice, org_id) for template, choice in self._reader.all_in_force(org_id)]
        return json_answer(rows)

    async def create(self, call: Call) -> Answer:
        """An id that is there gets a new version."""
        said = call.read(New)
        return await self._save(call, said.id, said, 201)

    async def save(self, call: Call) -> Answer:
        """Of a template that came with Molecule, the organisation has its own version from then on."""
        return await self._save(call, call.params["template_id"], call.read(Save), 200)

    async def _save(self, call: Call, template_id: str, said: Save, status: int) -> Answer:
        if template_id in _TAKEN:
            raise InvalidField(reason=f"a template cannot be called {template_id}; choose another id")
        org_id = call.params["org_id"]
        before = self._reader.find(org_id, template_id)
        usual = Draft(Parts()) if before is None else Draft(Parts(), before.runtime, before.extends)
        draft = Draft(
            parts_of(said.parts),
            usual.runtime if said.runtime is None else said.runtime,
            usual.extends if said.extends is UNSET else said.extends,
            said.note,
        )
        template, warnings = await self._writer.save(org_id, template_id, draft, _name_of(call), in_force=said.in_force)
        return json_answer(SavedTemplate(version_view(template), warnings), status)

    async def show(self, call: Call) -> Answer:
        """The version in force."""
        org_id, template_id = call.params["org_id"], call.params["template_id"]
        template, choice = self._found(org_id, template_id)
        chain, _ = rules.chain(
            template,
            lambda id_: self._reader.find(org_id, id_),
            default_id=rules.default_of(template.runtime),
        )
        base = msgspec.convert(msgspec.to_builtins(rules.merged(chain[:-1])), TemplateParts)
        return json_answer(TemplateDetail(self._row(template, choice, org_id), base))

    async def remove(self, call: Call) -> Answer:
        """Not while a workspace has chosen it or another template extends it."""
        org_id, template_id = call.params["org_id"], call.params["template_id"]
        users = [each for each in self._org.workspaces(org_id) if each.instruction_template_id == template_id]
        await self._writer.remove(org_id, template_id, _name_of(call), users=tuple(each.name for each in users))
        return Answer(b"", 204)

    async def versions(self, call: Call) -> Answer:
        """Newest first, those that came with Molecule too."""
        org_id, template_id = call.params["org_id"], call.params["template_id"]
        self._found(org_id, template_id)
        return json_answer([version_view(each) for each in self._reader.versions(org_id, template_id)])

    async def restore(self, call: Call) -> Answer:
        """The next message is told with it; a trial of another version ends."""
        org_id, template_id = call.params["org_id"], call.params["template_id"]
        said = call.read(Restore)
        await self._writer.restore(org_id, template_id, said.version, _name_of(call), built_in=said.built_in)
        return json_answer(self._row(*self._found(org_id, template_id), org_id))

    def _found(self, org_id: str, template_id: str) -> tuple[Template, InForce]:
        template, choice = self._reader.find(org_id, template_id), self._reader.choice(org_id, template_id)
        if template is None or choice is None:
            raise NotFound(what=WHAT)
        return template, choice

    def _row(self, template: Template, choice: InForce, org_id: str) -> TemplateRow:
        seats = self._org.workspaces(org_id)
        chosen = [seat for seat in seats if seat.instruction_template_id == template.id]
        others = [seat for seat in seats if not self._has_own(seat)]
        usual = [seat for seat in others if rules.default_of(seat.runtime) == template.id]
        edited = choice.org_id == org_id and template.id in rules.DEFAULT_IDS
        return TemplateRow(
            version_view(template),
            choice.canary,
            choice.percent,
            rfc3339(choice.since),
            edited,
            len(chosen),
            len(usual),
        )

    def _has_own(self, seat: Workspace) -> bool:
        chosen = seat.instruction_template_id
        return chosen is not None and self._reader.choice(seat.org_id, chosen) is not None


def _name_of(call: Call) -> str:
    return f"{call.by.kind.value}:{call.by.id}"


def _is_text(parts: Parts) -> bool:
    return parts == Parts(lines=parts.lines) and len(parts.lines) == 1


def _inline(said: str | dict[str, Any]) -> Parts:
    if isinstance(said, dict):
        try:
            return msgspec.convert(said, Parts)
        except msgspec.ValidationError as error:
            raise InvalidField(reason=f"inline_template: {error}") from None
    if not said.strip():
        raise InvalidField(reason="inline_template is empty; DELETE takes a workspace's template away")
    return Parts(lines=(said,))
