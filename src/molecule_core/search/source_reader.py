"""Reads the rows of other nouns that the index is made from."""

import logging
from collections.abc import Callable, Sequence

from molecule_core.search import rules
from molecule_core.search.model import SearchKind, SourceDocument, SourceRef
from molecule_core.store.database import Row, Store
from molecule_core.store.queries import Params

_QUERIES: dict[SearchKind, tuple[str, Callable[[Row], SourceDocument | None]]] = {
    SearchKind.MESSAGE: ("searchable_message", rules.message_document),
    SearchKind.DELEGATION: ("searchable_delegation", rules.delegation_document),
    SearchKind.THREAD: ("searchable_entry", rules.entry_document),
    SearchKind.MEMORY: ("searchable_memory", rules.memory_document),
}
_log = logging.getLogger("molecule.search")


class SourceReader:
    """Reader of the texts of messages, delegations, items of threads and memories."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def load(self, org_id: str, refs: Sequence[SourceRef]) -> dict[SourceRef, SourceDocument]:
        """Return the documents of rows of an organisation. One that has no text, or is gone, is left out."""
        found: dict[SourceRef, SourceDocument] = {}
        for kind, (query, to_document) in _QUERIES.items():
            own = [each for each in refs if each.kind is kind]
            params: list[Params] = [{"org_id": org_id, "id": each.id, "ordinal": each.ordinal} for each in own]
            for ref, rows in zip(own, await self._store.rows_of_each(query, params) if own else (), strict=True):
                document = _try_convert(ref, to_document, rows[0]) if rows else None
                if document is not None and document.org_id == org_id and document.text:
                    found[ref] = document
        return found


def _try_convert(
    ref: SourceRef, to_document: Callable[[Row], SourceDocument | None], row: Row
) -> SourceDocument | None:
    """Convert a row. One that cannot be read must not stop the index."""
    try:
        return to_document(row)
    except Exception:
        _log.exception("a row cannot be searched, because it cannot be read", extra={"kind": ref.kind, "id": ref.id})
        return None
