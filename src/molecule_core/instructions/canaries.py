"""Canaries: another version of a template gets a share of the messages until it is activated or ended.

The second writer of this package. Called by api, and by messages, which counts outcomes and ends the canary of a
version that does worse."""

from collections.abc import Hashable

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.instructions.canary_statistics import OutcomeCount
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.model import BUILT_IN_ORG, ActiveVersion
from molecule_core.instructions.validation import TemplateValidator
from molecule_core.store.database import Command, CommandSteps, JournalEvent, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.templates import TemplateRolledBackPayload, TemplateSavedPayload

FULL_SHARE = 100
"""The share, in percent, that makes a version the active one."""


def template_keys(org_id: str) -> tuple[Hashable, ...]:
    """Return the command keys for the templates of an organisation. They are those of the writer."""
    return (("templates", org_id),)


class CanaryWriter:
    """Starts and ends canaries."""

    def __init__(
        self, store: Store, catalogue: TemplateCatalogue, validator: TemplateValidator, *, clock: Clock
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._validator = validator
        self._clock = clock

    async def set_share(self, org_id: str, template_id: str, version: int, percent: int, by: str) -> ActiveVersion:
        """Set the share of messages that a version gets, in percent: 0 ends its canary, 100 activates it.

        Outcomes are counted from now on. An unchanged share changes nothing. Raises NotFound, InvalidField,
        InvalidTemplate."""

        def decide() -> CommandSteps[ActiveVersion]:
            yield from ()
            current = self._active_version(org_id, template_id)
            template = self._catalogue.find_version(org_id, template_id, version)
            if template is None:
                raise NotFound(what=f"version {version} of this template")
            chosen = self._next_version(org_id, current, version, percent)
            if chosen is None:
                return WriteSet(current)
            if percent:
                self._validator.validate_template(
                    replace(template, org_id=org_id)
                )  # the template it extends may have changed
            payload = TemplateSavedPayload(template_id, chosen.version, by, chosen.canary, chosen.percent)
            return self._version_write_set(chosen, "INSTRUCTION_TEMPLATE_SAVED", payload)

        return await self._store.run(Command(org_id, template_keys(org_id), decide))

    def _active_version(self, org_id: str, template_id: str) -> ActiveVersion:
        found = self._catalogue.active_version(org_id, template_id)
        if found is None:
            raise NotFound(what="instruction template")
        return found

    def _next_version(self, org_id: str, current: ActiveVersion, version: int, percent: int) -> ActiveVersion | None:
        """Return the new active version, or None if it would be unchanged."""
        at = self._clock.now()
        if percent == FULL_SHARE:
            is_unchanged = (current.version, current.canary) == (version, None)
            return None if is_unchanged else ActiveVersion(org_id, current.id, version, None, 0, at)
        if percent == 0:
            return (
                None if current.canary != version else ActiveVersion(org_id, current.id, current.version, None, 0, at)
            )
        if current.org_id == BUILT_IN_ORG and self._catalogue.is_shadowed(org_id, current.id, current.version):
            reason = f"version {current.version} exists twice. Activate a version of your organisation first."
            raise InvalidField(reason=reason)
        if version == current.version:
            raise InvalidField(reason=f"version {version} is already active. Choose another version, or 100 percent.")
        is_unchanged = (current.canary, current.percent) == (version, percent)
        return None if is_unchanged else ActiveVersion(org_id, current.id, current.version, version, percent, at)

    # -- write sets for the outcome counter ----------------------------------------------------------------------------

    def roll_back(self, active: ActiveVersion, old: OutcomeCount, new: OutcomeCount) -> WriteSet[None]:
        """Return the write set that ends a canary that does worse."""
        payload = TemplateRolledBackPayload(
            active.id,
            active.canary or 0,
            active.version,
            canary_rate=new.rate or 0.0,
            canary_outcomes=new.outcomes,
            base_rate=old.rate or 0.0,
            base_outcomes=old.outcomes,
        )
        ended = ActiveVersion(active.org_id, active.id, active.version, None, 0, self._clock.now())
        return self._version_write_set(ended, "INSTRUCTION_TEMPLATE_ROLLED_BACK", payload).returning(None)

    def _version_write_set(self, active: ActiveVersion, event: str, payload: msgspec.Struct) -> WriteSet[ActiveVersion]:
        return WriteSet(
            active,
            [("choose_template", active)],
            [JournalEvent(event, "", "template", active.id, 0, msgspec.json.encode(payload))],
            (org_key(active.org_id),),
            lambda: self._catalogue.put_versions((), (active,)),
        )
