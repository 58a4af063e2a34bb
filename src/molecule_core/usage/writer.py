"""Writes usage records, the sums of days, and price lists."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from molecule_core.common.clock import Clock
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.store.database import Command, CommandSteps, ReadQuery, RequestBatch, Store, WriteSet
from molecule_core.usage import rules
from molecule_core.usage.model import ModelPrice, PriceList, UsageDraft, UsageRecord, UsageRecorded

OriginQuery = Callable[[str, str], ReadQuery]
"""Returns the query whose row is the first message of a chain and the delegation that a message of a workspace belongs
to; called with the ids of both. Messages and delegations belong to other packages."""


class UsageWriter:
    """Writer of usage records."""

    def __init__(self, store: Store, origin_query: OriginQuery, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._origin_query = origin_query
        self._clock = clock
        self._limits = limits

    async def record(self, org_id: str, workspace_id: str, draft: UsageDraft) -> UsageRecord:
        """Record what a turn used, or return its record unchanged. Raises InvalidField."""
        rules.check_draft(draft, self._clock.now(), self._limits)
        keys = (("usage", workspace_id, draft.key),)
        return await self._store.run(Command(org_id, keys, lambda: self.record_steps(org_id, workspace_id, draft)))

    def record_steps(self, org_id: str, workspace_id: str, draft: UsageDraft) -> CommandSteps[UsageRecord]:
        """Record what a turn used, as a part of a command. A key that is recorded already changes nothing.

        The sums count it on the day of its turn. A turn that ended in the future, by another clock, ended now."""
        now = self._clock.now()
        known, origin_rows, price_rows = yield RequestBatch(
            [
                ReadQuery("usage_record", {"workspace_id": workspace_id, "key": draft.key}),
                self._origin_query(workspace_id, draft.activity_id or ""),
                ReadQuery("usage_prices", {"org_id": org_id}),
            ]
        )
        if known:
            return WriteSet(UsageRecord.from_row(known[0]))
        root_id, delegation_id = origin_rows[0] if origin_rows else (None, None)
        cost, source = rules.cost_of(draft, PriceList.from_rows(price_rows))
        record = UsageRecord(
            org_id=org_id,
            workspace_id=workspace_id,
            key=draft.key,
            thread_id=draft.thread_id,
            activity_id=draft.activity_id,
            delegation_id=delegation_id,
            root_id=root_id,
            model=draft.model or None,
            input_tokens=draft.tokens.input,
            cached_tokens=draft.tokens.cached,
            output_tokens=draft.tokens.output,
            cost_micros=cost,
            source=source,
            at=now if draft.at is None else min(draft.at, now),
        )
        return WriteSet(
            record,
            [("insert_usage_record", record), ("add_usage_day", _day_params(record))],
            domain_events=[_event_of(record)],
        )


class PriceWriter:
    """Writer of price lists. Records keep the cost that was computed when they were written."""

    def __init__(self, store: Store, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    async def replace_prices(self, org_id: str, currency: str, prices: Sequence[ModelPrice], editor: str) -> PriceList:
        """Replace the price list of an organisation. Raises InvalidField."""
        rules.check_prices(currency, prices, self._limits)

        def decide() -> CommandSteps[PriceList]:
            price_rows, day_rows = yield RequestBatch(
                [ReadQuery("usage_prices", {"org_id": org_id}), ReadQuery("first_usage_day", {"org_id": org_id})]
            )
            old = PriceList.from_rows(price_rows)
            if day_rows and currency != old.currency:
                raise InvalidField(
                    reason=f"currency cannot be {currency}: costs are counted in {old.currency} already."
                )
            new = PriceList(currency, tuple(prices), old.version + 1, self._clock.now(), editor)
            row = {**msgspec.structs.asdict(new), "org_id": org_id, "prices": msgspec.json.encode(new.prices).decode()}
            return WriteSet(new, [("save_usage_prices", row)])

        return await self._store.run(Command(org_id, (("usage_prices", org_id),), decide))


def _day_params(record: UsageRecord) -> dict[str, Any]:
    return {
        "org_id": record.org_id,
        "day": rules.day_of(record.at),
        "workspace_id": record.workspace_id,
        "model": record.model or "",
        "input_tokens": record.input_tokens,
        "cached_tokens": record.cached_tokens,
        "output_tokens": record.output_tokens,
        "cost_micros": record.cost_micros or 0,
        "unpriced": int(record.cost_micros is None),
    }


def _event_of(record: UsageRecord) -> UsageRecorded:
    return UsageRecorded(
        org_id=record.org_id,
        workspace_id=record.workspace_id,
        key=record.key,
        activity_id=record.activity_id,
        root_id=record.root_id,
        delegation_id=record.delegation_id,
        thread_id=record.thread_id,
        tokens=record.input_tokens + record.cached_tokens + record.output_tokens,
        cost_micros=record.cost_micros,
        at=record.at,
    )
