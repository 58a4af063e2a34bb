"""Reads of usage records and sums."""

from molecule_core.store.database import Store
from molecule_core.usage.model import PriceList, UsageRecord


class UsageReader:
    """Reader of usage records, their sums, and price lists."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find_record(self, workspace_id: str, key: str) -> UsageRecord | None:
        """Return the record of a turn, or None."""
        rows = await self._store.rows("usage_record", {"workspace_id": workspace_id, "key": key})
        return UsageRecord.from_row(rows[0]) if rows else None

    async def get_prices(self, org_id: str) -> PriceList:
        """Return the price list of an organisation."""
        return PriceList.from_rows(await self._store.rows("usage_prices", {"org_id": org_id}))
