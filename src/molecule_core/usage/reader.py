"""Reads of usage records and sums."""

from collections.abc import Sequence

from molecule_core.store.database import Store
from molecule_core.store.queries import Params
from molecule_core.usage.model import PriceList, UsageRecord, UsageSum


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

    async def list_of_chain(self, org_id: str, root_id: str, count: int) -> list[UsageRecord]:
        """Return the first `count` records of a chain, oldest first."""
        query = {"org_id": org_id, "root_id": root_id, "count": count}
        return [UsageRecord.from_row(row) for row in await self._store.rows("usage_of_chain", query)]

    # -- sums ----------------------------------------------------------------------------------------------------------

    async def sums_by_workspace(self, org_id: str, since: str, until: str) -> dict[str, UsageSum]:
        """Return the sums of each workspace of an organisation. `since`, `until`: the first and the last day."""
        return await self._sums("usage_by_workspace", {"org_id": org_id, "since": since, "until": until})

    async def sums_by_day(self, org_id: str, since: str, until: str) -> dict[str, UsageSum]:
        """Return the sums of each day of an organisation."""
        return await self._sums("usage_by_day", {"org_id": org_id, "since": since, "until": until})

    async def sums_by_model(self, org_id: str, since: str, until: str) -> dict[str, UsageSum]:
        """Return the sums of each model of an organisation; that of turns without a model under an empty name."""
        return await self._sums("usage_by_model", {"org_id": org_id, "since": since, "until": until})

    async def sums_by_request(self, org_id: str, since: int, until: int, count: int) -> dict[str, UsageSum]:
        """Return the sums of the `count` most expensive chains of an organisation, of turns that ended in a time."""
        query = {"org_id": org_id, "since": since, "until": until, "count": count}
        return await self._sums("usage_by_request", query)

    async def sums_of_workspaces(
        self, workspace_ids: Sequence[str], since: str, until: str
    ) -> list[tuple[str, str, str, UsageSum]]:
        """Return the sums of some workspaces, by workspace, day and model."""
        batch: list[Params] = [{"workspace_id": each, "since": since, "until": until} for each in workspace_ids]
        found = await self._store.rows_of_each("usage_of_workspace", batch)
        return [
            (workspace_id, row[0], row[1], UsageSum(*row[2:]))
            for workspace_id, rows in zip(workspace_ids, found, strict=True)
            for row in rows
        ]

    async def _sums(self, name: str, params: Params) -> dict[str, UsageSum]:
        return {row[0]: UsageSum(*row[1:]) for row in await self._store.rows(name, params)}
