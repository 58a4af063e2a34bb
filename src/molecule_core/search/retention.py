"""Retention of the search index: deletes documents whose rows other policies have deleted."""

from collections.abc import AsyncIterator

from molecule_core.search.rules import last_number
from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

_KIND = "search documents"


class SearchRetention(RetentionPolicy):
    """Retention policy for documents without a row. A row that is gone never comes back."""

    kinds = (_KIND,)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        last, full = -1, True
        while full:
            params = {"no": last, "before": last_number(before), "count": count}
            found = await self._store.rows("old_search_documents", params)
            full = len(found) == count
            by_org: dict[str, list[int]] = {}
            for number, org_id, rows in found:
                last = number
                if not rows:
                    by_org.setdefault(org_id, []).append(number)
            for org_id, numbers in by_org.items():
                writes = [("forget_search_document", {"no": each}) for each in numbers]
                yield RetentionBatch(_KIND, len(numbers), deletion_command(org_id, list(writes)))
            if not by_org:
                yield EMPTY_BATCH
