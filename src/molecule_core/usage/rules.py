"""Rules: valid reports, the day of a turn, and its cost. Pure."""

import time
from collections.abc import Sequence

from molecule_core.common.clock import DAY, SECOND
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import is_valid_client_id, validate_line
from molecule_core.usage.model import ModelPrice, PriceList, UsageDraft, UsageSource, UsageTokens

_PER_MILLION = 1_000_000


def check_draft(draft: UsageDraft, now: int, limits: Limits) -> None:
    """Check what a client reports. Raises InvalidField.

    A turn that ended before the records that retention has deleted may have been counted already."""
    if not is_valid_client_id(draft.key, limits.id_length):
        raise InvalidField(
            reason=f"key is not a valid id. Use at most {limits.id_length} characters of A-Z a-z 0-9 . _ : -."
        )
    if draft.model is not None:
        validate_line(draft.model, limits.name_length, "model")
    check_currency(draft.currency)
    if draft.at is not None and draft.at < first_record_time(now, limits):
        raise InvalidField(
            reason=f"at cannot be more than {limits.usage_record_days} days ago. Usage of that time is not recorded."
        )


def first_record_time(now: int, limits: Limits) -> int:
    """Return the time from which records are kept; 0: all are."""
    return now - limits.usage_record_days * DAY if limits.usage_record_days else 0


def check_currency(currency: str) -> None:
    """Check the code of a currency. Raises InvalidField."""
    if len(currency) != 3 or not currency.isascii() or not currency.isupper():
        raise InvalidField(reason="currency must be a code of ISO 4217. Use one such as USD.")


def check_prices(currency: str, prices: Sequence[ModelPrice], limits: Limits) -> None:
    """Check a price list. Raises InvalidField."""
    check_currency(currency)
    if len(prices) > limits.usage_prices:
        raise InvalidField(reason=f"prices cannot have {len(prices)} entries. Use at most {limits.usage_prices}.")
    names = [validate_line(each.model, limits.name_length, "model") for each in prices]
    for name, each in zip(names, prices, strict=True):
        if not name or name != each.model:
            raise InvalidField(reason="model must be a name without spaces at its start or end. Correct it.")
        if names.count(name) > 1:
            raise InvalidField(reason=f"prices cannot have {name} twice. Remove one of them.")


def day_of(at: int) -> str:
    """Return the day of a time, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(at // SECOND))


def find_price(prices: PriceList, model: str | None) -> ModelPrice | None:
    """Return the price of a model: that of its name, else that of the longest start of its name, else None."""
    name = model or ""
    exact = [each for each in prices.prices if each.model == name]
    starts = [each for each in prices.prices if each.model.endswith("*") and name.startswith(each.model[:-1])]
    return next(iter((*exact, *sorted(starts, key=lambda each: -len(each.model)))), None)


def compute_cost(tokens: UsageTokens, price: ModelPrice) -> int:
    """Return the cost of tokens in micro-units, rounded half up."""
    total = (
        tokens.input * price.input_micros + tokens.cached * price.cached_micros + tokens.output * price.output_micros
    )
    return (total + _PER_MILLION // 2) // _PER_MILLION


def cost_of(draft: UsageDraft, prices: PriceList) -> tuple[int | None, UsageSource]:
    """Return the cost of a turn, and where it comes from.

    A cost that was reported in another currency than the organisation's is not used."""
    if draft.cost_micros is not None and draft.currency == prices.currency:
        return draft.cost_micros, UsageSource.REPORTED
    price = find_price(prices, draft.model)
    return None if price is None else compute_cost(draft.tokens, price), UsageSource.COMPUTED
