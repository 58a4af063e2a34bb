"""Push notification configurations of A2A, in both lines of the protocol. Decides nothing about tasks.

A response never has a token or credentials: they are written once, and sent with the notifications only.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from molecule_core.wire.protocols.a2a_rpc import INVALID_PARAMS, A2AError, object_param, text_param
from molecule_core.wire.protocols.a2a_shapes import A2ALine

TOKEN_HEADER = "X-A2A-Notification-Token"
"""The header in which a notification brings the token of its configuration."""
_V0_3_MEMBER = "pushNotificationConfig"


class PushConfig(Struct, frozen=True, kw_only=True):
    """A configuration as a client sends it. `id` None: it has no name."""

    id: str | None
    url: str
    token: str
    scheme: str
    credentials: str

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"PushConfig({self.id!r})"


def parse_push_config(config: Mapping[str, Any], line: A2ALine) -> PushConfig:
    """Parse a configuration. Raises A2AError."""
    authentication = object_param(config, "authentication")
    if line is A2ALine.V1:
        scheme = text_param(authentication, "scheme", required=bool(authentication)) or ""
    else:
        scheme = _first_scheme(authentication)
    url = config.get("url")
    if not isinstance(url, str) or not url:
        raise A2AError(INVALID_PARAMS, "url of the push notification configuration is missing or not a text.")
    return PushConfig(
        id=text_param(config, "id"),
        url=url,
        token=text_param(config, "token") or "",
        scheme=scheme,
        credentials=text_param(authentication, "credentials") or "",
    )


def _first_scheme(authentication: Mapping[str, Any]) -> str:
    schemes = authentication.get("schemes")
    if schemes is None:
        return text_param(authentication, "scheme") or ""
    if not isinstance(schemes, list) or not all(isinstance(each, str) for each in schemes):
        raise A2AError(INVALID_PARAMS, "schemes of the authentication is not a list of texts.")
    return schemes[0] if schemes else ""


def render_push_config(task_id: str, config: PushConfig, line: A2ALine) -> dict[str, Any]:
    """Return a configuration as a line of the protocol writes it, without its secrets."""
    if line is A2ALine.V1:
        authentication = {"authentication": {"scheme": config.scheme}} if config.scheme else {}
        return {"taskId": task_id, "id": config.id, "url": config.url, **authentication}
    authentication_0_3 = {"authentication": {"schemes": [config.scheme]}} if config.scheme else {}
    return {"taskId": task_id, _V0_3_MEMBER: {"id": config.id, "url": config.url, **authentication_0_3}}
