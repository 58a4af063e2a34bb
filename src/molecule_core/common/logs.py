"""Logs on standard error: text for people, JSON for machines. Credentials are removed from both."""

import logging
import math
import re
import sys

import msgspec

from molecule_core.common.clock import SECOND, to_rfc3339

_CREDENTIAL = re.compile(r"mol_(ws|pt|ad|se|ln|in|ps|ru|oa|or|oc)_[A-Za-z0-9_-]{8,}|\b(?i:bearer)\s+\S+")
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s@]+@")  # in an address such as postgresql://user:password@host
_USERINFO = re.compile(r"(://)[^\s/:@]+@")  # an address may also hold a token alone
_HEADER = re.compile(
    r"""\b((?:set-)?cookie|(?:proxy-)?authorization)\b(b?["']?\s*[:=,]\s*b?["']?)(?!\[credential\])[^\r\n"']+""",
    re.IGNORECASE,
)
_PASSWORD_FIELD = re.compile(r"""\b(password|passwd|pwd)(["']?\s*[=:]\s*["']?)[^\s"'&;,]+""", re.IGNORECASE)
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


# A shorter value is no secret, and its removal would damage ordinary words.
MIN_SECRET_LENGTH = 8
_registered_secrets: set[str] = set()


def register_secret(secret: str) -> None:
    """Register a secret without a recognisable prefix, such as an admin token that the operator chose.

    A value shorter than `MIN_SECRET_LENGTH`, such as the key "x" of a local model server, is not removed from texts."""
    if len(secret) >= MIN_SECRET_LENGTH:
        _registered_secrets.add(secret)


def mask_registered_secrets(text: str, replacement: str) -> str:
    """Replace every registered secret in a text."""
    for secret in _registered_secrets:
        text = text.replace(secret, replacement)
    return text


def redact(text: str) -> str:
    """Replace everything that looks like a credential, and every registered secret."""
    text = mask_registered_secrets(text, "[credential]")  # control: log-redaction
    text = _PASSWORD.sub(r"\1[credential]@", _CREDENTIAL.sub("[credential]", text))
    for pattern in (_HEADER, _PASSWORD_FIELD):
        text = pattern.sub(r"\1\2[credential]", text)
    return _USERINFO.sub(r"\1[credential]@", text)


def _clean_text(text: str) -> str:
    """Remove credentials, and escape lone surrogates, which JSON cannot hold."""
    return redact(text).encode("utf-8", "backslashreplace").decode()


def _json_value(value: object) -> object:
    """Return a number, a boolean or null as it is, anything else as clean text. JSON has no infinity."""
    if value is None or (isinstance(value, int | float) and math.isfinite(value)):
        return value
    return _clean_text(str(value))


class TextFormatter(logging.Formatter):
    """Formatter of one line for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Format the record without credentials."""
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Keep the message on one line, so that logged text cannot imitate another entry."""
        return redact(super().formatMessage(record)).replace("\n", "\\n").replace("\r", "\\r")


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object a line.

    Members: time, level, logger, message, process, and the record's extras (`reference` of a failed request, `route`,
    `org`, `workspace`, `exception`). Numbers are numbers."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record as JSON without credentials."""
        line = {
            "time": to_rfc3339(int(record.created * SECOND)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **{name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # Redact before encoding: a pattern applied to JSON could match past the end of a value.
        return msgspec.json.encode({name: _json_value(value) for name, value in line.items()}).decode()


def configure_logging(level: str, style: str) -> None:
    """Send all logs to standard error. `style` is `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
