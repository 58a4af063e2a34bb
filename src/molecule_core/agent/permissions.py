"""What a host asks its person to permit, as it tells a channel. Received, shown and kept; the answer comes with the
approvals.

Above: engine. Below: neutral.
"""

import logging
from collections import deque
from typing import Any

from msgspec import Struct

from molecule_core.agent.neutral import line

CAPABILITY = "claude/channel/permission"
METHOD = "notifications/claude/channel/permission_request"
_MOST_KEPT = 100
_log = logging.getLogger("molecule.agent")


class PermissionRequest(Struct, frozen=True):
    """A host's question. All of it is text of the host and of the model in it."""

    request_id: str
    tool_name: str
    description: str
    input_preview: str


class Permissions:
    """The latest questions, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[PermissionRequest] = deque(maxlen=_MOST_KEPT)

    @property
    def kept(self) -> tuple[PermissionRequest, ...]:
        """What was asked and not forgotten yet."""
        return tuple(self._kept)

    def take(self, params: dict[str, Any]) -> PermissionRequest | None:
        """Keeps a question and tells it in the log; None if it is none."""
        asked = PermissionRequest(*(_text(params.get(name)) for name in PermissionRequest.__struct_fields__))
        if not asked.request_id:
            return None
        self._kept.append(asked)
        _log.info("the host asks for permission %s: %s (%s)", asked.request_id, asked.tool_name, asked.description)
        return asked


def _text(value: object) -> str:
    return line(value, 1000) if isinstance(value, str) else ""
