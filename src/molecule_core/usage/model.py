"""Usage records, their sums, and the price list of an organisation.

Costs are whole micro-units (millionths) of the organisation's currency. Times are microseconds since 1970, days are
`YYYY-MM-DD` in UTC."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

DEFAULT_CURRENCY = "USD"
"""The currency of an organisation without a price list, and of reports that name none."""


class UsageSource(StrEnum):
    """Where the cost of a record comes from."""

    REPORTED = "reported"
    """The program that ran the turn reported it."""
    COMPUTED = "computed"
    """It was computed from the price list; it is unknown if the list has no price of the model."""


class UsageTokens(Struct, frozen=True):
    """Tokens of a turn by kind. `input`: without those that the provider read from its cache (`cached`)."""

    input: int = 0
    cached: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """Return the tokens of all kinds."""
        return self.input + self.cached + self.output


class UsageDraft(Struct, frozen=True, kw_only=True):
    """What a turn used, to be recorded once.

    `key`: identifies the turn among those of its workspace. `activity_id`: the message that the turn worked on.
    `cost_micros`: None if it was not reported. `at`: end of the turn; None: now."""

    key: str
    tokens: UsageTokens
    activity_id: str | None = None
    thread_id: str | None = None
    model: str | None = None
    cost_micros: int | None = None
    currency: str = DEFAULT_CURRENCY
    at: int | None = None


class UsageRecord(Struct, frozen=True, kw_only=True):
    """A row of `usage_records`, in column order.

    `root_id`: first message of the chain that the turn belongs to. `cost_micros`: None if it is unknown."""

    org_id: str
    workspace_id: str
    key: str
    thread_id: str | None
    activity_id: str | None
    delegation_id: str | None
    root_id: str | None
    model: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int | None
    source: UsageSource
    at: int

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "UsageRecord":
        """Build a record from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["source"] = UsageSource(columns["source"])
        return cls(**columns)


class UsageRecorded(Struct, frozen=True, kw_only=True):
    """Domain event: the usage of a turn was recorded. Each `key` of a workspace is recorded once.

    `activity_id`: the message that the turn worked on, `root_id`: first one of its chain. `tokens`: of all kinds.
    `cost_micros`: None if it
    is unknown. `at`: end of the turn, which may be long ago."""

    org_id: str
    workspace_id: str
    key: str
    activity_id: str | None
    root_id: str | None
    delegation_id: str | None
    thread_id: str | None
    tokens: int
    cost_micros: int | None
    at: int


class UsageSum(Struct, frozen=True):
    """Sums over turns. `unpriced`: turns whose cost is unknown; `cost_micros` is that of the others."""

    turns: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0

    def __add__(self, other: "UsageSum") -> "UsageSum":
        """Return the sums of both."""
        return UsageSum(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class ModelPrice(Struct, frozen=True):
    """Price of a million tokens of each kind, in micro-units of the currency.

    `model`: its name, or the start of several names followed by `*`."""

    model: str
    input_micros: int
    cached_micros: int
    output_micros: int


class PriceList(Struct, frozen=True):
    """The prices that an organisation pays. `version` changes with each edit; 0: it was never edited."""

    currency: str = DEFAULT_CURRENCY
    prices: tuple[ModelPrice, ...] = ()
    version: int = 0
    changed_at: int = 0
    changed_by: str = ""

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any]]) -> "PriceList":
        """Build the list of an organisation from the rows of `usage_prices`: one, or none."""
        if not rows:
            return cls()
        currency, prices, version, changed_at, changed_by = rows[0]
        return cls(currency, msgspec.json.decode(prices, type=tuple[ModelPrice, ...]), version, changed_at, changed_by)
