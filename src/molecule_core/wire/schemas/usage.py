"""Usage of turns as clients report and read it."""

from datetime import datetime
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
    is computed from the organisation's prices, if they have one of `model`. `at`: end of the turn, now if missing.
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
    at: Annotated[datetime, Meta(tz=True)] | None = None


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
