"""Reads of templates, all from memory."""

from collections.abc import Iterable

import msgspec

from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.model import ActiveVersion, Template, TemplateContent
from molecule_core.store.cache_sync import BatchReader, SyncedCache
from molecule_core.store.database import Row, Store


class InstructionReader:
    """Read access to templates."""

    def __init__(self, catalogue: TemplateCatalogue) -> None:
        self.active_version = catalogue.active_version
        self.own_active_version = catalogue.own_active_version
        self.find_active_template = catalogue.find_active_template
        self.find_version = catalogue.find_version
        self.list_versions = catalogue.list_versions
        self.active_templates = catalogue.active_templates


async def load_catalogue(store: Store, catalogue: TemplateCatalogue) -> None:
    """Fill the catalogue from the store at start."""
    templates = [_template_from_row(row) for row in await store.rows("all_templates", {})]
    catalogue.put_versions(templates, [ActiveVersion(*row) for row in await store.rows("all_template_choices", {})])


class TemplateCacheSync(SyncedCache):
    """Keeps the catalogue in sync with changes made by other processes."""

    KINDS = ("template",)

    def __init__(self, catalogue: TemplateCatalogue) -> None:
        self._catalogue = catalogue

    async def load(self, read: BatchReader, _kind: str, keys: list[str]) -> Iterable[str]:
        """Load what another process changed. Notifies no channel: it applies from the next message on."""
        query_params = [{"id": key} for key in keys]
        templates = [_template_from_row(row) for rows in await read("templates_by_id", query_params) for row in rows]
        active_versions = [
            ActiveVersion(*row) for rows in await read("template_choices_by_id", query_params) for row in rows
        ]
        self._catalogue.put_versions(templates, active_versions)
        return ()

    async def load_all(self, read: BatchReader) -> None:
        """Reload everything, since the list of changes is incomplete."""
        templates = [_template_from_row(row) for row in (await read("all_templates", [{}]))[0]]
        self._catalogue.put_versions(
            templates, [ActiveVersion(*row) for row in (await read("all_template_choices", [{}]))[0]]
        )


def _template_from_row(row: Row) -> Template:
    org_id, id_, version, runtime, extends, parts, note, created_at, created_by = row
    content = msgspec.json.decode(parts, type=TemplateContent)
    return Template(org_id, id_, version, runtime, extends, content, note, created_at, created_by)
