"""Reads of templates: all of them are in memory."""

from collections.abc import Iterable

import msgspec

from molecule_core.instructions.catalogue import Catalogue
from molecule_core.instructions.model import InForce, Parts, Template
from molecule_core.store.database import Row, Store
from molecule_core.store.mirrors import Mirror, Reads


class InstructionReader:
    """What others may know of templates."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.choice = catalogue.choice
        self.own = catalogue.own
        self.find = catalogue.find
        self.version = catalogue.version
        self.versions = catalogue.versions
        self.all_in_force = catalogue.all_in_force


async def load_catalogue(store: Store, catalogue: Catalogue) -> None:
    """Fills the catalogue from the store, at start."""
    templates = [_template(row) for row in await store.rows("all_templates", {})]
    catalogue.put(templates, [InForce(*row) for row in await store.rows("all_template_choices", {})])


class TemplateMirror(Mirror):
    """Keeps the catalogue current where other processes change the store too."""

    KINDS = ("template",)

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def load(self, read: Reads, _kind: str, keys: list[str]) -> Iterable[str]:
        """What another process has changed. Nobody waits for it: it is in force with the next message."""
        wishes = [{"id": key} for key in keys]
        templates = [_template(row) for rows in await read("templates_by_id", wishes) for row in rows]
        choices = [InForce(*row) for rows in await read("template_choices_by_id", wishes) for row in rows]
        self._catalogue.put(templates, choices)
        return ()

    async def load_all(self, read: Reads) -> None:
        """Everything: more has changed than is noted."""
        templates = [_template(row) for row in (await read("all_templates", [{}]))[0]]
        self._catalogue.put(templates, [InForce(*row) for row in (await read("all_template_choices", [{}]))[0]])


def _template(row: Row) -> Template:
    org_id, id_, version, runtime, extends, parts, note, created_at, created_by = row
    said = msgspec.json.decode(parts, type=Parts)
    return Template(org_id, id_, version, runtime, extends, said, note, created_at, created_by)
