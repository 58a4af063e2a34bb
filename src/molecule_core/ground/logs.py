"""Logs on standard error: text for people, JSON for machines. Credentials are taken out of both."""

import logging
import re
import sys

import msgspec

from molecule_core.ground.clock import SECOND, rfc3339

_CREDENTIAL = re.compile(r"mol_(ws|pt|ad)_[A-Za-z0-9_-]{8,}|(?i:bearer)\s+\S+")
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def redact(text: str) -> str:
    """The text without anything that looks like a credential."""
    return _CREDENTIAL.sub("[credential]", text)


class TextFormatter(logging.Formatter):
    """One line for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line, without credentials."""
        return redact(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, without credentials."""
        line = {
            "time": rfc3339(int(record.created * SECOND)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: str(value) for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return redact(msgspec.json.encode(line).decode())


def set_up_logs(level: str, style: str) -> None:
    """Sends all logs to standard error, in one style. `style` is `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True
