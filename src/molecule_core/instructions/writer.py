"""The only hand that changes templates of instructions and which of their versions are in force."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import TemplateInUse, TooManyTemplates
from molecule_core.ground.text import clean_line, is_client_id
from molecule_core.instructions import rules
from molecule_core.instructions.catalogue import Catalogue
from molecule_core.instructions.checking import Checks
from molecule_core.instructions.model import DEFAULTS, Choice, Draft, InForce, Seat, Template
from molecule_core.instructions.seeds import in_force as seeded_in_force
from molecule_core.instructions.seeds import seeds
from molecule_core.store.database import Command, Decision, Event, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.wire.templates import TemplateFailed, TemplateSaved

_log = logging.getLogger("molecule.instructions")
# Of each version that fails an organisation is told once by a process; so many are remembered.
_MOST_TOLD = 10_000
WHAT = "instruction template"
Lives = Callable[[str, str], bool]
"""Whether a workspace, by its id, lives in an organisation: its own template is none of anybody else's."""


class InstructionWriter:
    """Saves templates. A version never changes; saving makes a new one. One change of an organisation's templates at a
    time, so that each decides on what the others left."""

    def __init__(
        self, store: Store, catalogue: Catalogue, checks: Checks, lives: Lives, *, clock: Clock, limits: Limits
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._checks = checks
        self._lives = lives
        self._clock = clock
        self._limits = limits
        self._told: set[tuple[str, Choice]] = set()

    async def seed(self) -> None:
        """Puts the templates of this version of Molecule beside those that are there; nothing is overwritten."""
        now, writes = self._clock.now(), list[tuple[str, Params]]()
        templates, choices = list[Template](), list[InForce]()
        for template in seeds(now):
            if self._catalogue.exactly(template.choice) is None:
                templates.append(template)
                writes.append(("seed_template", _row(template)))
            found = self._catalogue.own(DEFAULTS, template.id)
            if found is None or found.version < template.version:
                choices.append(seeded_in_force(template))
                writes.append(("seed_template_choice", choices[-1]))

        def decide() -> Decision[None]:
            yield from ()
            return WriteSet(None, writes, then=lambda: self._catalogue.put(templates, choices))

        if writes:
            await self._store.run(Command(DEFAULTS, (("templates", DEFAULTS),), decide))

    async def save(
        self, org_id: str, template_id: str, draft: Draft, by: str, *, in_force: bool = True
    ) -> tuple[Template, list[str]]:
        """A new version, and what its author may not have meant. `in_force`: whether messages are told with it from now
        on. Raises InvalidField, InvalidTemplate, TooManyTemplates."""
        self._check_id(template_id)

        def decide() -> Decision[tuple[Template, list[str]]]:
            yield from ()
            template = self.candidate(org_id, template_id, draft, by)
            warnings = self._checks.check(template)
            self._check_seat(org_id, template_id)
            self._check_room(org_id, template_id)
            chosen = InForce(org_id, template_id, template.version, None, 0, template.created_at)
            if not in_force:
                chosen = self._unchanged(org_id, template_id) or chosen
            writes: list[tuple[str, Params]] = [("insert_template", _row(template))]
            return self._decided((template, warnings), writes, [template], chosen, by)

        return await self._store.run(self._of(org_id, decide))

    def candidate(self, org_id: str, template_id: str, draft: Draft, by: str) -> Template:
        """The version that a draft would become; it is not checked. Raises InvalidField."""
        most = self._limits.short_text_length
        note = None if draft.note is None else clean_line(draft.note, most, "note")
        known = self._catalogue.versions(org_id, template_id)
        return Template(
            org_id,
            template_id,
            known[0].version + 1 if known else 1,
            clean_line(draft.runtime, most, "runtime"),
            draft.extends,
            draft.parts,
            note or None,
            self._clock.now(),
            by,
        )

    async def restore(
        self, org_id: str, template_id: str, version: int, by: str, *, built_in: bool | None = None
    ) -> Template:
        """Another version is in force; a trial ends. `built_in`: whether Molecule's is meant; None: the organisation's
        own, if it has one of this number. Raises NotFound, InvalidField, InvalidTemplate."""

        def decide() -> Decision[Template]:
            yield from ()
            if self._catalogue.choice(org_id, template_id) is None:
                raise NotFound(what=WHAT)
            template = self._catalogue.version(DEFAULTS if built_in else org_id, template_id, version)
            if template is None or (built_in is False and template.org_id == DEFAULTS):
                raise NotFound(what=f"version {version} of this template")
            self._checks.check(replace(template, org_id=org_id))  # what it extends may be another by now
            chosen = InForce(org_id, template_id, version, None, 0, self._clock.now())
            if built_in and self._catalogue.is_shadowed(org_id, template_id, version):
                chosen = self._original(chosen)
            return self._decided(template, [], [], chosen, by)

        return await self._store.run(self._of(org_id, decide))

    async def remove(self, org_id: str, template_id: str, by: str, *, users: tuple[str, ...] = ()) -> None:
        """An organisation has a template no more; of one that comes with Molecule it has the original again. `users`:
        the names of the workspaces that have chosen it. Raises NotFound, TemplateInUse."""

        def decide() -> Decision[None]:
            yield from ()
            own = self._catalogue.own(org_id, template_id)
            if own is None or own.removed_at is not None:
                raise NotFound(what=WHAT)
            if self._catalogue.own(DEFAULTS, template_id) is None:
                used = (*self._catalogue.extended_by(org_id, template_id), *users)
                if used:
                    raise TemplateInUse(template_id=template_id, users=", ".join(used[:10]))
            now = self._clock.now()
            return self._decided(None, [], [], replace(own, canary=None, percent=0, since=now, removed_at=now), by)

        return await self._store.run(self._of(org_id, decide))

    def failed(self, seat: Seat, choice: Choice, reason: str) -> None:
        """A template could not be rendered: its organisation is told so, once for each version."""
        told = (seat.org_id, choice)
        if told in self._told:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told.add(told)
        _log.warning(
            "the template %s could not be rendered for workspace %s: %s", choice.name, seat.workspace_id, reason
        )
        payload = msgspec.json.encode(TemplateFailed(choice.template_id, choice.version, seat.workspace_id, reason))
        event = Event("INSTRUCTION_TEMPLATE_FAILED", "", "template", choice.template_id, choice.version, payload)

        def decide() -> Decision[None]:
            yield from ()
            return WriteSet(None, [], [event], (org_key(seat.org_id),))

        self._store.run(Command(seat.org_id, (), decide)).add_done_callback(_looked_at)

    # -- what a change is made of --------------------------------------------------------------------------------------

    def _of(self, org_id: str, decide: Any) -> Any:
        return Command(org_id, (("templates", org_id),), decide)

    def _decided(
        self, answer: Any, writes: list[tuple[str, Params]], templates: list[Template], chosen: InForce, by: str
    ) -> WriteSet[Any]:
        told = TemplateSaved(
            chosen.id, 0 if chosen.removed_at is not None else chosen.version, by, chosen.canary, chosen.percent
        )
        payload = msgspec.json.encode(told)
        event = Event("INSTRUCTION_TEMPLATE_SAVED", "", "template", chosen.id, chosen.version, payload)
        return WriteSet(
            answer,
            [*writes, ("choose_template", chosen)],
            [event],
            (org_key(chosen.org_id),),
            lambda: self._catalogue.put(templates, [chosen]),
        )

    def _unchanged(self, org_id: str, template_id: str) -> InForce | None:
        """What is in force now, as the organisation's own decision; None: nothing is."""
        found = self._catalogue.choice(org_id, template_id)
        if found is None or found.org_id == org_id:
            return found
        unchanged = replace(found, org_id=org_id, since=self._clock.now())
        is_shadowed = self._catalogue.is_shadowed(org_id, template_id, found.version)
        return self._original(unchanged) if is_shadowed else unchanged

    def _original(self, chosen: InForce) -> InForce:
        """Molecule's version of a number that is one of the organisation's too: to be in force, it must be the one that
        is without a decision of the organisation, and that is taken back. Raises InvalidField."""
        original = self._catalogue.own(DEFAULTS, chosen.id)
        if original is None or original.version != chosen.version:
            reason = f"there are two versions {chosen.version}, and of Molecule's only the newest can be put in force"
            raise InvalidField(reason=reason)
        return replace(chosen, removed_at=chosen.since)

    def _check_id(self, template_id: str) -> None:
        if not is_client_id(template_id, self._limits.id_length):
            reason = f"a template's id takes 1 to {self._limits.id_length} characters of A-Z a-z 0-9 . _ : -"
            raise InvalidField(reason=reason)

    def _check_seat(self, org_id: str, template_id: str) -> None:
        workspace_id = template_id.removeprefix(rules.INLINE)
        if workspace_id != template_id and not self._lives(workspace_id, org_id):
            raise InvalidField(
                reason=f"{rules.INLINE} begins the id of a workspace's own template; no such workspace is here"
            )

    def _check_room(self, org_id: str, template_id: str) -> None:
        versions = self._catalogue.versions(org_id, template_id)
        if len(versions) >= self._limits.template_versions:
            raise TooManyTemplates(limit=self._limits.template_versions, what="versions of this template")
        if self._catalogue.own(org_id, template_id) is None and not template_id.startswith(rules.INLINE):
            every = [choice for _, choice in self._catalogue.all_in_force(org_id) if choice.org_id == org_id]
            own = [each for each in every if not each.id.startswith(rules.INLINE)]
            if len(own) >= self._limits.templates:
                raise TooManyTemplates(limit=self._limits.templates, what="instruction templates in this organisation")


def _row(template: Template) -> dict[str, Any]:
    return {**asdict(template), "parts": msgspec.json.encode(template.parts).decode()}


def _looked_at(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.warning("that a template failed could not be written down: %s", error)
