"""Reads the card of an A2A agent, of both lines of the protocol, and chooses the interface to call.

Called by `a2a_agents`. Members that the protocol does not know are ignored.
"""

import re
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.common.errors import InvalidField
from molecule_core.common.text import single_line
from molecule_core.wire.protocols.a2a_response import get_member
from molecule_core.wire.protocols.a2a_shapes import A2ALine

_MAX_QUOTED_LENGTH = 200
_DEFAULT_VERSION = "0.3.0"
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)(\.[0-9]+)?", re.ASCII)


class A2ABinding(StrEnum):
    """A transport of A2A that the server speaks."""

    JSONRPC = "JSONRPC"
    HTTP_JSON = "HTTP+JSON"


INTERFACE_ORDER = (
    (A2ABinding.JSONRPC, A2ALine.V1),
    (A2ABinding.HTTP_JSON, A2ALine.V1),
    (A2ABinding.JSONRPC, A2ALine.V0_3),
)
"""The interfaces that the server can call, the preferred one first."""


class AgentInterface(Struct, frozen=True):
    """An interface of an A2A agent. `tenant`: to be echoed in each request."""

    url: str
    binding: A2ABinding
    line: A2ALine
    tenant: str | None = None


class ApiKeyPlace(NamedTuple):
    """Where an agent expects its API key: `header`, `cookie` or `query`, and the name there."""

    location: str
    name: str


class AgentCard(Struct, frozen=True, kw_only=True):
    """What the server needs of a card: the chosen interface, abilities, and where credentials go."""

    name: str
    interface: AgentInterface
    streaming: bool = False
    push_notifications: bool = False
    api_key: ApiKeyPlace | None = None
    token_url: str | None = None
    """The token endpoint of the OAuth2 client credentials flow."""
    scopes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    """The extensions that each request must name."""
    schemes: tuple[str, ...] = ()
    """Kinds of credentials that the card describes: bearer, api_key, oauth2 or others."""


def parse_card(card: Any, *, known_extensions: frozenset[str] = frozenset()) -> AgentCard:
    """Parse an agent card and choose its interface. Raises InvalidField with the reason.

    `known_extensions`: those that a card may require."""
    if not isinstance(card, dict):
        raise InvalidField(reason="the agent card is not a JSON object. Use the url of an A2A agent card.")
    name = card.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidField(reason="the agent card has no name. Use the url of an A2A agent card.")
    capabilities = card.get("capabilities")
    declared = _as_list(get_member(capabilities, "extensions"))
    for each in declared:
        if get_member(each, "required") is True and get_member(each, "uri") not in known_extensions:
            uri = single_line(str(get_member(each, "uri")), _MAX_QUOTED_LENGTH)
            raise InvalidField(
                reason=f"the agent requires the extension {uri}, which the server does not know. "
                "Use an agent that does not require it."
            )
    schemes = [each for each in (_scheme_of(each) for each in _schemes(card)) if each is not None]
    flow = next((value for kind, value in schemes if kind == "oauth2"), {})
    token_url = get_member(flow, "tokenUrl")
    api_key = next(
        (ApiKeyPlace(value["location"], value["name"]) for kind, value in schemes if kind == "api_key"), None
    )
    return AgentCard(
        name=single_line(name, _MAX_QUOTED_LENGTH),
        interface=_choose_interface(card),
        streaming=get_member(capabilities, "streaming") is True,
        push_notifications=get_member(capabilities, "pushNotifications") is True,
        api_key=api_key,
        token_url=token_url if isinstance(token_url, str) else None,
        scopes=tuple(each for each in get_member(flow, "scopes", {}) if isinstance(each, str)),
        extensions=tuple(str(get_member(each, "uri")) for each in declared if get_member(each, "required") is True),
        schemes=tuple(dict.fromkeys(kind for kind, _ in schemes)),
    )


def _choose_interface(card: dict[str, Any]) -> AgentInterface:
    found = _interfaces(card)
    usable = [each for each in (_to_interface(*each) for each in found) if each is not None]
    for order in INTERFACE_ORDER:
        for each in usable:
            if (each.binding, each.line) == order:
                return each
    if not found:
        raise InvalidField(reason="the agent card names no interface. Use the url of an A2A agent card.")
    listed = ", ".join(single_line(f"{binding} {version}", _MAX_QUOTED_LENGTH) for _, binding, version, _ in found)
    raise InvalidField(
        reason=f"the server speaks none of the interfaces that the agent card names: {listed}. "
        "Use an agent with JSONRPC 1.0, HTTP+JSON 1.0 or JSONRPC 0.3."
    )


def _interfaces(card: dict[str, Any]) -> list[tuple[str, str, str, Any]]:
    """Return the interfaces of a card, which may have those of both lines: url, binding, version, tenant."""
    found = [
        (get_member(each, "url"), get_member(each, "protocolBinding"), get_member(each, "protocolVersion"), each)
        for each in _as_list(card.get("supportedInterfaces"))
    ]
    version = card.get("protocolVersion") or _DEFAULT_VERSION
    if isinstance(card.get("url"), str):
        found.append((card["url"], card.get("preferredTransport") or A2ABinding.JSONRPC, version, None))
        found += [
            (get_member(each, "url"), get_member(each, "transport"), version, None)
            for each in _as_list(card.get("additionalInterfaces"))
        ]
    return [
        (url, str(binding), str(line or _DEFAULT_VERSION), get_member(source, "tenant"))
        for url, binding, line, source in found
        if isinstance(url, str) and url
    ]


def _to_interface(url: str, binding: str, version: str, tenant: Any) -> AgentInterface | None:
    """Return an interface that the server can call, else None. Patch numbers do not matter; 0.2 is like 0.3."""
    number = _VERSION.fullmatch(version.strip())
    line = {("1", "0"): A2ALine.V1, ("0", "3"): A2ALine.V0_3, ("0", "2"): A2ALine.V0_3}.get(
        (number[1], number[2]) if number else ("", "")
    )
    if line is None or binding not in tuple(A2ABinding):
        return None
    return AgentInterface(url, A2ABinding(binding), line, tenant if isinstance(tenant, str) and tenant else None)


def _schemes(card: dict[str, Any]) -> list[Any]:
    schemes = card.get("securitySchemes")
    return [*schemes.values()] if isinstance(schemes, dict) else []


def _scheme_of(scheme: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the kind of a security scheme and its content, from the shape of either line."""
    kind = get_member(scheme, "type")
    key = get_member(scheme, "apiKeySecurityScheme") or (scheme if kind == "apiKey" else None)
    if isinstance(key, dict):
        location, name = key.get("location", key.get("in")), key.get("name")
        is_usable = isinstance(location, str) and isinstance(name, str)
        return ("api_key", {"location": location, "name": name}) if is_usable else None
    http = get_member(scheme, "httpAuthSecurityScheme") or (scheme if kind == "http" else None)
    if isinstance(http, dict):
        return str(http.get("scheme")).lower(), {}
    oauth = get_member(scheme, "oauth2SecurityScheme") or (scheme if kind == "oauth2" else None)
    if isinstance(oauth, dict):
        flow = get_member(oauth.get("flows"), "clientCredentials")
        return "oauth2", flow if isinstance(flow, dict) else {}
    return None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
