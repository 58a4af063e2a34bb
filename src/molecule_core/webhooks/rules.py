"""What a webhook may contain, and when a failed post is repeated. Pure."""

import re

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import CapacityExceeded, InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import is_valid_client_id
from molecule_core.webhooks.model import WebhookTarget

# A scheme is a token of HTTP; a credential is the rest of a header's line.
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_JITTER_BITS = 8
# A delay is at most a quarter longer, so that the webhooks of a server that was away do not come back at once.
_JITTER_PARTS = 4


def check_target(target: WebhookTarget, limits: Limits) -> None:
    """Check the texts of a webhook, apart from its address. Raises InvalidField."""
    if target.scheme and not _SCHEME.fullmatch(target.scheme):
        raise InvalidField(reason="the scheme of the authentication is not a token of HTTP. Use one like Bearer.")
    for name, text in (("token", target.token), ("credentials", target.credentials)):
        if len(text) > limits.webhook_secret_length:
            reason = f"the {name} cannot have {len(text)} characters. Use at most {limits.webhook_secret_length}."
            raise InvalidField(reason=reason)
        if text and not _HEADER_TEXT.fullmatch(text):
            raise InvalidField(reason=f"the {name} must be printable ASCII without blanks around it.")


def check_capacity(active: int, limits: Limits) -> None:
    """Check that an organisation with so many active webhooks may have one more. Raises CapacityExceeded."""
    if active >= limits.webhooks:
        what = "push notification configurations of open tasks in one organisation"
        raise CapacityExceeded(what=what, most=limits.webhooks)


def check_id(config_id: str, limits: Limits) -> None:
    """Check the id that a client gave to a webhook. Raises InvalidField."""
    if not is_valid_client_id(config_id, limits.id_length):
        raise InvalidField(reason="the id of a push notification configuration must be a short text without blanks.")


def jitter_bits() -> int:
    """Return how many random bits a delay takes."""
    return _JITTER_BITS


def retry_delay(failures: int, bits: int, limits: Limits) -> int:
    """Return after how many microseconds a post is repeated: twice as long each time, up to a limit."""
    seconds = min(limits.webhook_retry_seconds << min(failures - 1, 30), limits.webhook_retry_most_seconds)
    return round(seconds * SECOND * (1 + bits / (1 << _JITTER_BITS) / _JITTER_PARTS))


def describe_status(status: int) -> str | None:
    """Return why a response means that an event was not accepted; None if it was."""
    return None if 200 <= status < 300 else f"it responded with status {status}"
