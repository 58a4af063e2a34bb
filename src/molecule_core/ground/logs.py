"""Logs on standard error: text for people, JSON for machines. Credentials are taken out of both."""

import logging
import re
import sys

import msgspec

from molecule_core.ground.clock import SECOND, rfc3339

_CREDENTIAL = re.compile(r"mol_(ws|pt|ad|se|ln|in)_[A-Za-z0-9_-]{8,}|\b(?i:bearer)\s+\S+")
_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s@]+@")  # in an address such as postgresql://user:password@host
_USERINFO = re.compile(r"(://)[^\s/:@]+@")  # a token alone stands there too
_HEADER = re.compile(
    r"""\b((?:set-)?cookie|(?:proxy-)?authorization)\b(b?["']?\s*[:=,]\s*b?["']?)(?!\[credential\])[^\r\n"']+""",
    re.IGNORECASE,
)
_NAMED = re.compile(r"""\b(password|passwd|pwd)(["']?\s*[=:]\s*["']?)[^\s"'&;,]+""", re.IGNORECASE)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


_hidden: set[str] = set()


def hide(secret: str) -> None:
    """Names a secret that does not look like one of ours: an admin token that the operator chose."""
    _hidden.add(secret)


def without_named(text: str, replacement: str) -> str:
    """The text without what was named as a secret."""
    for secret in _hidden:
        text = text.replace(secret, replacement)
    return text


def redact(text: str) -> str:
    """The text without anything that looks like a credential, or was named as one."""
    text = without_named(text, "[credential]")  # control: log-redaction
    text = _PASSWORD.sub(r"\1[credential]@", _CREDENTIAL.sub("[credential]", text))
    for pattern in (_HEADER, _NAMED):
        text = pattern.sub(r"\1\2[credential]", text)
    return _USERINFO.sub(r"\1[credential]@", text)


def _clean(text: str) -> str:
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
            "time": rfc3339(int(record.created * SECOND)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": str(record.process),
            **{name: str(value) for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # Before it becomes JSON: what stands behind a credential there belongs to the JSON.
        return msgspec.json.encode({name: _clean(text) for name, text in line.items()}).decode()


def set_up_logs(level: str, style: str) -> None:
    """Sends all logs to standard error, in one style. `style` is `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
