"""Canaries: another version of a template gets a share of the messages, until it is put in force or ended.

The second hand of this slice, beside the writer. Above: edges, and `messages`, which counts what becomes of messages,
and ends the trial of a version that does worse. Below: the catalogue, the rules of measuring, store.
"""

from collections.abc import Hashable

import msgspec
from msgspec.structs import replace

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.instructions.catalogue import Catalogue
from molecule_core.instructions.checking import Checks
from molecule_core.instructions.measuring import Score
from molecule_core.instructions.model import DEFAULTS, InForce
from molecule_core.store.database import Command, Decision, Event, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.templates import TemplateRolledBack, TemplateSaved

EVERYTHING = 100
"""The share of a version that is in force."""


def template_keys(org_id: str) -> tuple[Hashable, ...]:
    """The keys of a command that decides about templates of an organisation: the writer's own."""
    return (("templates", org_id),)


class Trials:
    """Begins and ends them."""

    def __init__(self, store: Store, catalogue: Catalogue, checks: Checks, *, clock: Clock) -> None:
        self._store = store
        self._catalogue = catalogue
        self._checks = checks
        self._clock = clock

    async def share(self, org_id: str, template_id: str, version: int, percent: int, by: str) -> InForce:
        """Gives a version a share of the messages, in percent: 0 ends its trial, 100 puts it in force. What is counted
        is counted from now on. The same again changes nothing. Raises NotFound, InvalidField, InvalidTemplate."""

        def decide() -> Decision[InForce]:
            yield from ()
            now = self._choice(org_id, template_id)
            template = self._catalogue.version(org_id, template_id, version)
            if template is None:
                raise NotFound(what=f"version {version} of this template")
            wanted = self._wanted(org_id, now, version, percent)
            if wanted is None:
                return WriteSet(now)
            if percent:
                self._checks.check(replace(template, org_id=org_id))  # what it extends may be another by now
            told = TemplateSaved(template_id, wanted.version, by, wanted.canary, wanted.percent)
            return self._changed(wanted, "INSTRUCTION_TEMPLATE_SAVED", told)

        return await self._store.run(Command(org_id, template_keys(org_id), decide))

    def _choice(self, org_id: str, template_id: str) -> InForce:
        found = self._catalogue.choice(org_id, template_id)
        if found is None:
            raise NotFound(what="instruction template")
        return found

    def _wanted(self, org_id: str, now: InForce, version: int, percent: int) -> InForce | None:
        """What is to be in force; None: it is so already."""
        at = self._clock.now()
        if percent == EVERYTHING:
            is_so = (now.version, now.canary) == (version, None)
            return None if is_so else InForce(org_id, now.id, version, None, 0, at)
        if percent == 0:
            return None if now.canary != version else InForce(org_id, now.id, now.version, None, 0, at)
        if now.org_id == DEFAULTS and self._catalogue.is_shadowed(org_id, now.id, now.version):
            reason = f"you have had a version {now.version} too; put one of yours in force before you try another"
            raise InvalidField(reason=reason)
        if version == now.version:
            raise InvalidField(reason=f"version {version} is in force already; name another one, or 100 percent")
        is_so = (now.canary, now.percent) == (version, percent)
        return None if is_so else InForce(org_id, now.id, now.version, version, percent, at)

    # -- steps for whoever counts --------------------------------------------------------------------------------------

    def rolled_back(self, choice: InForce, old: Score, new: Score) -> WriteSet[None]:
        """Ends the trial of a canary that does worse."""
        told = TemplateRolledBack(
            choice.id,
            choice.canary or 0,
            choice.version,
            canary_rate=new.rate or 0.0,
            canary_outcomes=new.outcomes,
            base_rate=old.rate or 0.0,
            base_outcomes=old.outcomes,
        )
        ended = InForce(choice.org_id, choice.id, choice.version, None, 0, self._clock.now())
        changed = self._changed(ended, "INSTRUCTION_TEMPLATE_ROLLED_BACK", told)
        return WriteSet(None, changed.writes, changed.events, changed.rings, changed.then)

    def _changed(self, choice: InForce, event: str, told: msgspec.Struct) -> WriteSet[InForce]:
        return WriteSet(
            choice,
            [("choose_template", choice)],
            [Event(event, "", "template", choice.id, 0, msgspec.json.encode(told))],
            (org_key(choice.org_id),),
            lambda: self._catalogue.put((), (choice,)),
        )
