"""Usage of turns as clients report and read it."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

# More than any turn uses, and far from the limits of sums in 64 bits.
Tokens = Annotated[int, Meta(ge=0, le=10**12)]
Micros = Annotated[int, Meta(ge=0, le=10**13)]
"""Millionths of a currency."""


class ReportUsageBody(Struct):
    """What a turn used.

    `key`: identifies the turn among those of the workspace; a repeated report changes nothing. `activity_id`: the
    message that the turn worked on, which assigns it to a request and a delegation. `input_tokens`: without those that
    were read from the provider's cache (`cached_tokens`). `cost_micros`: millionths of `currency`; without it the cost
    is computed from the organisation's prices, if they have one of `model`. `at`: end of the turn (RFC 3339), now if
    missing.
    """

    key: str
    input_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    output_tokens: Tokens = 0
    model: str | None = None
    cost_micros: Micros | None = None
    currency: str = "USD"
    activity_id: str | None = None
    thread_id: str | None = None
    at: str | None = None


class UsageRecordView(Struct):
    """The usage of a turn.

    `root_id`: first message of the request that it belongs to. `cost_micros`: millionths of the organisation's
    currency, null if it is unknown. `source`: `reported` by the program, or `computed` from the organisation's prices.
    `at`: end of the turn, RFC 3339."""

    key: str
    workspace_id: str
    thread_id: str | None
    activity_id: str | None
    delegation_id: str | None
    root_id: str | None
    model: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int | None
    source: str
    at: str


class UsageGrouping(StrEnum):
    """What the rows of a report are sums of."""

    AGENT = "agent"
    TEAM = "team"
    MODEL = "model"
    DAY = "day"
    REQUEST = "request"


class UsageRow(Struct):
    """Sums over turns.

    `key`: id of the workspace (agent, team), model (empty: unknown), day, or first message of the request. `name`: of
    the workspace, or the beginning of the message. `cost_micros`: millionths of the currency, without the
    `turns_without_cost` whose cost is unknown."""

    key: str
    name: str | None
    turns: int
    turns_without_cost: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_micros: int


class UsageReport(Struct):
    """Usage in a range of days (UTC, both included), the most expensive rows first; days in their order.

    A team is a workspace with all below it, so teams overlap; `total` counts each turn once. `is_complete`: false if
    rows were cut at their limit."""

    since: str
    until: str
    by: str
    currency: str
    rows: list[UsageRow]
    total: UsageRow
    is_complete: bool


class ModelPriceItem(Struct):
    """Price of a million tokens of each kind, in millionths of the currency.

    `model`: its name, or the start of several names followed by `*`; the longest that fits is used."""

    model: str
    input_micros: Micros
    output_micros: Micros
    cached_micros: Micros = 0


class PriceListBody(Struct):
    """The prices from which costs are computed that programs do not report.

    `currency`: of all costs of the organisation; it cannot be changed once there is usage."""

    prices: list[ModelPriceItem]
    currency: str = "USD"


class PriceListView(Struct):
    """The price list of an organisation. `changed_at`, `changed_by`: null if it was never edited."""

    currency: str
    prices: list[ModelPriceItem]
    version: int
    changed_at: str | None
    changed_by: str | None
