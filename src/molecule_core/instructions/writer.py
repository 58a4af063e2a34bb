"""Writes templates and their active versions, beside `CanaryWriter`."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import InvalidField, NotFound, TemplateInUse, TooManyTemplates
from molecule_core.common.limits import Limits
from molecule_core.common.text import ID_ALPHABET, is_valid_client_id, validate_line
from molecule_core.instructions import rules
from molecule_core.instructions.builtin_templates import active_builtin_version, iter_builtin_templates
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.model import (
    BUILT_IN_ORG,
    ActiveVersion,
    AgentProfile,
    Template,
    TemplateDraft,
    TemplateVersionRef,
)
from molecule_core.instructions.validation import TemplateValidator
from molecule_core.store.database import Command, CommandSteps, JournalEvent, Statement, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.templates import TemplateFailedPayload, TemplateSavedPayload

_log = logging.getLogger("molecule.instructions")
# A process reports each failing version once to an organisation; it remembers 10,000 reports.
_MAX_REPORTED = 10_000
TEMPLATE_NOUN = "instruction template"
WorkspaceExists = Callable[[str, str], bool]
"""Returns whether a workspace is in an organisation: only it may save the workspace's own template."""


class InstructionWriter:
    """Saves templates. A version never changes; saving creates a new one.

    Commands on the templates of an organisation run one at a time, so that each sees the result of the one before."""

    def __init__(
        self,
        store: Store,
        catalogue: TemplateCatalogue,
        validator: TemplateValidator,
        workspace_exists: WorkspaceExists,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._validator = validator
        self._workspace_exists = workspace_exists
        self._clock = clock
        self._limits = limits
        self._reported: set[tuple[str, TemplateVersionRef]] = set()

    async def seed_builtin_templates(self) -> None:
        """Store the built-in templates of this version of Molecule. Nothing is overwritten."""
        now, writes = self._clock.now(), list[Statement]()
        templates, active_versions = list[Template](), list[ActiveVersion]()
        for template in iter_builtin_templates(now):
            if self._catalogue.find_by_ref(template.ref) is None:
                templates.append(template)
                writes.append(("seed_template", _template_params(template)))
            found = self._catalogue.own_active_version(BUILT_IN_ORG, template.id)
            if found is None or found.version < template.version:
                active_versions.append(active_builtin_version(template))
                writes.append(("seed_template_choice", active_versions[-1]))

        def decide() -> CommandSteps[None]:
            yield from ()
            return WriteSet(None, writes, after_commit=lambda: self._catalogue.put_versions(templates, active_versions))

        if writes:
            await self._store.run(Command(BUILT_IN_ORG, (("templates", BUILT_IN_ORG),), decide))

    async def save_template(
        self, org_id: str, template_id: str, draft: TemplateDraft, by: str, *, activate: bool = True
    ) -> tuple[Template, list[str]]:
        """Save a new version and return it with warnings for its author. `activate`: use it from now on.

        Raises InvalidField, InvalidTemplate, TooManyTemplates."""
        self._check_id(template_id)

        def decide() -> CommandSteps[tuple[Template, list[str]]]:
            yield from ()
            template = self.build_candidate(org_id, template_id, draft, by)
            warnings = self._validator.validate_template(template)
            self._check_workspace(org_id, template_id)
            self._check_quota(org_id, template_id)
            chosen = ActiveVersion(org_id, template_id, template.version, None, 0, template.created_at)
            if not activate:
                chosen = self._current_version(org_id, template_id) or chosen
            saved = WriteSet((template, warnings), [("insert_template", _template_params(template))])
            return saved + self._activate(chosen, by, [template])

        return await self._store.run(self._template_command(org_id, decide))

    def build_candidate(self, org_id: str, template_id: str, draft: TemplateDraft, by: str) -> Template:
        """Return the version that a draft would become, unchecked. Raises InvalidField."""
        max_length = self._limits.short_text_length
        note = None if draft.note is None else validate_line(draft.note, max_length, "note")
        known = self._catalogue.list_versions(org_id, template_id)
        return Template(
            org_id,
            template_id,
            known[0].version + 1 if known else 1,
            validate_line(draft.runtime, max_length, "runtime"),
            draft.extends,
            draft.parts,
            note or None,
            self._clock.now(),
            by,
        )

    async def restore_version(
        self, org_id: str, template_id: str, version: int, by: str, *, built_in: bool | None = None
    ) -> Template:
        """Activate another version and end a canary.

        `built_in`: whether the built-in version is meant; None: the organisation's own if it has this number. Raises
        NotFound, InvalidField, InvalidTemplate."""

        def decide() -> CommandSteps[Template]:
            yield from ()
            if self._catalogue.active_version(org_id, template_id) is None:
                raise NotFound(what=TEMPLATE_NOUN)
            template = self._catalogue.find_version(BUILT_IN_ORG if built_in else org_id, template_id, version)
            if template is None or (built_in is False and template.org_id == BUILT_IN_ORG):
                raise NotFound(what=f"version {version} of this template")
            self._validator.validate_template(
                replace(template, org_id=org_id)
            )  # the template it extends may have changed
            chosen = ActiveVersion(org_id, template_id, version, None, 0, self._clock.now())
            if built_in and self._catalogue.is_shadowed(org_id, template_id, version):
                chosen = self._builtin_version(chosen)
            return self._activate(chosen, by).returning(template)

        return await self._store.run(self._template_command(org_id, decide))

    async def remove_template(self, org_id: str, template_id: str, by: str, *, users: tuple[str, ...] = ()) -> None:
        """Remove an organisation's template. A built-in template becomes active again.

        `users`: names of the workspaces that have chosen it. Raises NotFound, TemplateInUse."""

        def decide() -> CommandSteps[None]:
            yield from ()
            own = self._catalogue.own_active_version(org_id, template_id)
            if own is None or own.removed_at is not None:
                raise NotFound(what=TEMPLATE_NOUN)
            if self._catalogue.own_active_version(BUILT_IN_ORG, template_id) is None:
                used = (*self._catalogue.extending_template_ids(org_id, template_id), *users)
                if used:
                    raise TemplateInUse(template_id=template_id, users=", ".join(used[:10]))
            now = self._clock.now()
            return self._activate(replace(own, canary=None, percent=0, since=now, removed_at=now), by)

        return await self._store.run(self._template_command(org_id, decide))

    def record_failure(self, profile: AgentProfile, ref: TemplateVersionRef, reason: str) -> None:
        """Report a template that could not be rendered to its organisation, once for each version."""
        reported = (profile.org_id, ref)
        if reported in self._reported:
            return
        if len(self._reported) >= _MAX_REPORTED:
            self._reported.clear()
        self._reported.add(reported)
        _log.warning(
            "the template %s could not be rendered for workspace %s: %s", ref.name, profile.workspace_id, reason
        )
        payload = msgspec.json.encode(TemplateFailedPayload(ref.template_id, ref.version, profile.workspace_id, reason))
        event = JournalEvent("INSTRUCTION_TEMPLATE_FAILED", "", "template", ref.template_id, ref.version, payload)

        def decide() -> CommandSteps[None]:
            yield from ()
            return WriteSet(None, [], [event], (org_key(profile.org_id),))

        self._store.run(Command(profile.org_id, (), decide)).add_done_callback(_log_store_error)

    # -- commands and write sets ---------------------------------------------------------------------------------------

    def _template_command(self, org_id: str, decide: Any) -> Any:
        return Command(org_id, (("templates", org_id),), decide)

    def _activate(self, chosen: ActiveVersion, by: str, templates: Sequence[Template] = ()) -> WriteSet[None]:
        """Return what makes a version the active one. `templates`: new ones of the same command."""
        reported = TemplateSavedPayload(
            chosen.id, 0 if chosen.removed_at is not None else chosen.version, by, chosen.canary, chosen.percent
        )
        payload = msgspec.json.encode(reported)
        event = JournalEvent("INSTRUCTION_TEMPLATE_SAVED", "", "template", chosen.id, chosen.version, payload)
        return WriteSet(
            None,
            [("choose_template", chosen)],
            [event],
            (org_key(chosen.org_id),),
            lambda: self._catalogue.put_versions(templates, [chosen]),
        )

    def _current_version(self, org_id: str, template_id: str) -> ActiveVersion | None:
        """Return the active version as the organisation's own, or None."""
        found = self._catalogue.active_version(org_id, template_id)
        if found is None or found.org_id == org_id:
            return found
        unchanged = replace(found, org_id=org_id, since=self._clock.now())
        is_shadowed = self._catalogue.is_shadowed(org_id, template_id, found.version)
        return self._builtin_version(unchanged) if is_shadowed else unchanged

    def _builtin_version(self, chosen: ActiveVersion) -> ActiveVersion:
        """Return the choice of a built-in version whose number the organisation has too.

        Only the newest built-in version can be chosen, by removing the organisation's choice. Raises InvalidField."""
        original = self._catalogue.own_active_version(BUILT_IN_ORG, chosen.id)
        if original is None or original.version != chosen.version:
            reason = f"version {chosen.version} of Molecule is not its newest. Choose the newest version of Molecule."
            raise InvalidField(reason=reason)
        return replace(chosen, removed_at=chosen.since)

    def _check_id(self, template_id: str) -> None:
        if not is_valid_client_id(template_id, self._limits.id_length):
            reason = (
                f"the id of a template is not valid. Use 1 to {self._limits.id_length} characters of {ID_ALPHABET}."
            )
            raise InvalidField(reason=reason)

    def _check_workspace(self, org_id: str, template_id: str) -> None:
        workspace_id = template_id.removeprefix(rules.WORKSPACE_TEMPLATE_PREFIX)
        if workspace_id != template_id and not self._workspace_exists(workspace_id, org_id):
            raise InvalidField(
                reason=f"an id that begins with {rules.WORKSPACE_TEMPLATE_PREFIX} must name a workspace, and this one "
                "was not "
                "found. Choose another id."
            )

    def _check_quota(self, org_id: str, template_id: str) -> None:
        versions = self._catalogue.list_versions(org_id, template_id)
        if len(versions) >= self._limits.template_versions:
            raise TooManyTemplates(limit=self._limits.template_versions, what="versions of this template")
        if self._catalogue.own_active_version(org_id, template_id) is None and not template_id.startswith(
            rules.WORKSPACE_TEMPLATE_PREFIX
        ):
            every = [choice for _, choice in self._catalogue.active_templates(org_id) if choice.org_id == org_id]
            own = [each for each in every if not each.id.startswith(rules.WORKSPACE_TEMPLATE_PREFIX)]
            if len(own) >= self._limits.templates:
                raise TooManyTemplates(limit=self._limits.templates, what="instruction templates in this organisation")


def _template_params(template: Template) -> dict[str, Any]:
    return {**asdict(template), "parts": msgspec.json.encode(template.parts).decode()}


def _log_store_error(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.warning("the failure of a template could not be stored: %s", error)
