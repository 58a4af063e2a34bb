"""Logs on standard error: text for people, JSON for machines. Credentials are taken out of both."""

import logging
import re
import sys

import msgspec

from molecule_core.common.clock import SECOND, to_rfc3339

_CREDENTIAL = re.compile(r"mol_(ws|pt|ad|se|ln|in)_[A-Za-z0-9_-]{8,}|\b(?i:bearer)\s+\S+")
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s@]+@")  # in an address such as postgresql://user:password@host
_USERINFO = re.compile(r"(://)[^\s/:@]+@")  # a token alone stands there too
_HEADER = re.compile(
    r"""\b((?:set-)?cookie|(?:proxy-)?authorization)\b(b?["']?\s*[:=,]\s*b?["']?)(?!\[credential\])[^\r\n"']+""",
    re.IGNORECASE,
)
_PASSWORD_FIELD = re.compile(r"""\b(password|passwd|pwd)(["']?\s*[=:]\s*["']?)[^\s"'&;,]+""", re.IGNORECASE)
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


_registered_secrets: set[str] = set()


def register_secret(secret: str) -> None:
    """Names a secret that does not look like one of ours: an admin token that the operator chose."""
    _registered_secrets.add(secret)


def mask_registered_secrets(text: str, replacement: str) -> str:
    """The text without what was named as a secret."""
    for secret in _registered_secrets:
        text = text.replace(secret, replacement)
    return text


def redact(text: str) -> str:
    """The text without anything that looks like a credential, or was named as one."""
    text = mask_registered_secrets(text, "[credential]")  # control: log-redaction
    text = _PASSWORD.sub(r"\1[credential]@", _CREDENTIAL.sub("[credential]", text))
    for pattern in (_HEADER, _PASSWORD_FIELD):
        text = pattern.sub(r"\1\2[credential]", text)
    return _USERINFO.sub(r"\1[credential]@", text)


def _clean_text(text: str) -> str:
    """Without credentials, and without what is no text (lone surrogates), which JSON cannot hold."""
    return redact(text).encode("utf-8", "backslashreplace").decode()


class TextFormatter(logging.Formatter):
    """One line for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, without credentials."""
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """What was said stays on its line, so that nobody's text can look like another entry."""
        return redact(super().formatMessage(record)).replace("\n", "\\n").replace("\r", "\\r")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, process, and what more is known (`reference` of a failed
    request, `route`, `org`, `workspace`, `exception`)."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, without credentials."""
        line = {
            "time": to_rfc3339(int(record.created * SECOND)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": str(record.process),
            **{name: str(value) for name, value in vars(record).items() if name not in _STANDARD_FIELDS},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # Before it becomes JSON: what stands behind a credential there belongs to the JSON.
        return msgspec.json.encode({name: _clean_text(text) for name, text in line.items()}).decode()


def configure_logging(level: str, style: str) -> None:
    """Sends all logs to standard error, in one style. `style` is `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
