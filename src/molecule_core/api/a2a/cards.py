"""Builds the A2A cards of workspaces from what their agents describe, in both lines of the protocol.

An agent's own card is untrusted JSON: only members of the expected kinds are used, cut to short texts.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from molecule_core.api.a2a.tool_approvals import TOOL_APPROVAL_EXTENSION
from molecule_core.common.clock import SECOND
from molecule_core.common.text import single_line
from molecule_core.org.model import Workspace
from molecule_core.views.a2a_tasks import APPROVAL_EXTENSION
from molecule_core.wire.protocols.a2a import DELEGATION_EXTENSION
from molecule_core.wire.protocols.a2a_shapes import A2ALine

RESUME_EXTENSION = "https://molecule.dev/ext/resume/v1"
"""Extension: streams number their events, and `Last-Event-ID` resumes one."""
IDEMPOTENCY_EXTENSION = "https://molecule.dev/ext/idempotency/v1"
"""Extension: a key under which a message is sent once, in the header Idempotency-Key or in metadata."""
OWN_EXTENSIONS = (
    DELEGATION_EXTENSION,
    APPROVAL_EXTENSION,
    RESUME_EXTENSION,
    IDEMPOTENCY_EXTENSION,
    TOOL_APPROVAL_EXTENSION,
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAX_NAME, _MAX_TEXT, _MAX_ITEMS = 200, 2000, 100
_DEFAULT_INPUT = ("text/plain", "application/json", "*/*")
_DEFAULT_OUTPUT = ("text/plain", "application/json", "application/octet-stream")
_EXTENSION_TEXTS = {
    DELEGATION_EXTENSION: "A message that activates this extension, or has metadata.delegation true, is a delegation.",
    APPROVAL_EXTENSION: "Tasks in auth-required describe the approval; a message with this metadata decides on it.",
    RESUME_EXTENSION: "Events of streams have numbers; the header Last-Event-ID resumes a stream after one.",
    TOOL_APPROVAL_EXTENSION: "A request that activates it reads and decides approvals as those of kagent's tool calls.",
    IDEMPOTENCY_EXTENSION: "A message with a known key returns the task of its first sending.",
}

CardSigner = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns a card with a signature."""


class EncodedCard(NamedTuple):
    """A card as it is sent. `modified_at`: microseconds."""

    body: bytes
    etag: str
    modified_at: int

    @property
    def last_modified(self) -> str:
        """Return the time of the last change as HTTP writes it."""
        at = datetime.fromtimestamp(self.modified_at // SECOND, UTC)
        # Names of the header are English whatever the locale; `email.utils` would be loaded for this alone.
        return f"{_DAYS[at.weekday()]}, {at:%d} {_MONTHS[at.month - 1]} {at:%Y %H:%M:%S} GMT"


class CardBuilder:
    """Builder of cards.

    `has_push`: whether push notifications are offered. `is_dual`: whether cards also have the members of A2A 0.3.
    `blocking_seconds`: how long a blocking request waits at most."""

    def __init__(
        self,
        *,
        public_url: str,
        has_push: bool,
        is_dual: bool,
        blocking_seconds: int,
        signer: CardSigner | None = None,
    ) -> None:
        self._public_url = public_url
        self._has_push = has_push
        self._is_dual = is_dual
        self._blocking_seconds = blocking_seconds
        self._signer = signer

    def interface_url(self, workspace: Workspace) -> str:
        """Return the address of the interface of a workspace."""
        return f"{self._public_url}/workspaces/{workspace.id}/a2a"

    def card_url(self, workspace: Workspace) -> str:
        """Return the address of the card of a workspace."""
        return f"{self._public_url}/workspaces/{workspace.id}/.well-known/agent-card.json"

    def build(self, workspace: Workspace, *, extended: bool = False) -> dict[str, Any]:
        """Return the card of a workspace. An extended one also has what only callers with a credential see."""
        own, url = own_card(workspace), self.interface_url(workspace)
        description = _text(own.get("description"), _MAX_TEXT) or workspace.role or f"The agent {workspace.name}."
        card: dict[str, Any] = {
            "name": workspace.name,
            "description": description,
            "version": _text(own.get("version"), _MAX_NAME) or "1.0.0",
            "supportedInterfaces": [
                {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": A2ALine.V1.value},
                {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": A2ALine.V0_3.value},
                {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": A2ALine.V1.value},
            ],
            "capabilities": {
                "streaming": True,
                "pushNotifications": self._has_push,
                "extendedAgentCard": True,
                "extensions": self._extensions(own),
            },
            "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": _SCHEME}}},
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
            "defaultInputModes": input_modes(workspace),
            "defaultOutputModes": _texts(own.get("defaultOutputModes")) or list(_DEFAULT_OUTPUT),
            "skills": _skills(own, workspace, description),
        }
        for name in ("documentationUrl", "iconUrl"):
            if address := _text(own.get(name), _MAX_TEXT):
                card[name] = address
        provider = own.get("provider")
        if isinstance(provider, dict) and _text(provider.get("organization"), _MAX_NAME):
            card["provider"] = {name: _text(provider.get(name), _MAX_TEXT) for name in ("organization", "url")}
        if extended:
            card["capabilities"]["extensions"][0]["params"] |= {
                "workspaceId": workspace.id,
                "runtime": workspace.runtime,
            }
        if self._is_dual:
            self._add_v0_3(card, url)
        return card if self._signer is None else self._signer(card)

    def encode(self, workspace: Workspace, *, extended: bool = False) -> EncodedCard:
        """Return the card of a workspace as it is sent, with its ETag."""
        body = msgspec.json.encode(self.build(workspace, extended=extended), order="deterministic")
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        return EncodedCard(body, f'"{digest}"', workspace.updated_at)

    def _extensions(self, own: Mapping[str, Any]) -> list[dict[str, Any]]:
        params = {DELEGATION_EXTENSION: {"blockingSeconds": self._blocking_seconds}}
        ours = [
            {"uri": uri, "description": _EXTENSION_TEXTS[uri], "required": False, "params": params.get(uri, {})}
            for uri in OWN_EXTENSIONS
        ]
        agents = [{"uri": uri, "required": is_required} for uri, is_required in agent_extensions(own).items()]
        return ours + agents

    def _add_v0_3(self, card: dict[str, Any], url: str) -> None:
        """Add the members of A2A 0.3, which clients of 1.0 ignore."""
        card["url"] = url
        card["preferredTransport"] = "JSONRPC"
        card["protocolVersion"] = "0.3.0"
        card["additionalInterfaces"] = [{"url": url, "transport": "JSONRPC"}]
        card["supportsAuthenticatedExtendedCard"] = True
        card["security"] = [{"bearer": []}]
        card["securitySchemes"]["bearer"] |= {"type": "http", "scheme": "bearer", "description": _SCHEME}


_SCHEME = "A token of a workspace or of a person of this server."


def own_card(workspace: Workspace) -> dict[str, Any]:
    """Return what an agent describes of itself; empty if it is no object."""
    found = msgspec.json.decode(workspace.agent_card) if workspace.agent_card else None
    return found if isinstance(found, dict) else {}


def input_modes(workspace: Workspace) -> list[str]:
    """Return the media types that an agent accepts: those of its own card, or any."""
    return _texts(own_card(workspace).get("defaultInputModes")) or list(_DEFAULT_INPUT)


def accepts_media_type(modes: list[str], media_type: str) -> bool:
    """Return whether one of the declared types, which may have wildcards, includes a media type."""
    plain = media_type.partition(";")[0].strip().lower()
    family = plain.partition("/")[0]
    return any(mode.lower() in ("*/*", "*", plain, f"{family}/*") for mode in modes)


def agent_extensions(own: Mapping[str, Any]) -> dict[str, bool]:
    """Return the extensions that an agent's card names, and whether it requires each."""
    capabilities = own.get("capabilities")
    named = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    found = [each for each in named[:_MAX_ITEMS] if isinstance(each, dict)] if isinstance(named, list) else []
    pairs = {_text(each.get("uri"), _MAX_NAME): each.get("required") is True for each in found}
    return {uri: required for uri, required in pairs.items() if uri and uri not in OWN_EXTENSIONS}


def required_extensions(workspace: Workspace) -> list[str]:
    """Return the extensions without which a workspace accepts no message."""
    return [uri for uri, is_required in agent_extensions(own_card(workspace)).items() if is_required]


def known_extensions(workspace: Workspace) -> frozenset[str]:
    """Return the extensions that a request to a workspace can activate."""
    return frozenset((*OWN_EXTENSIONS, *agent_extensions(own_card(workspace))))


def _skills(own: Mapping[str, Any], workspace: Workspace, description: str) -> list[dict[str, Any]]:
    """Return the skills of an agent's card; an agent without any has one for all that it does."""
    named = own.get("skills")
    found = list[dict[str, Any]]()
    for number, each in enumerate(named[:_MAX_ITEMS] if isinstance(named, list) else []):
        name = _text(each.get("name") if isinstance(each, dict) else each, _MAX_NAME)
        if not name:
            continue
        described = each if isinstance(each, dict) else {}
        skill: dict[str, Any] = {
            "id": _text(described.get("id"), _MAX_NAME) or f"skill-{number + 1}",
            "name": name,
            "description": _text(described.get("description"), _MAX_TEXT) or name,
            "tags": _texts(described.get("tags")) or [workspace.runtime],
        }
        for member in ("examples", "inputModes", "outputModes"):
            if texts := _texts(described.get(member)):
                skill[member] = texts
        found.append(skill)
    return found or [
        {
            "id": "work",
            "name": workspace.role or workspace.name,
            "description": description,
            "tags": [workspace.runtime],
        }
    ]


def _text(value: Any, most: int) -> str:
    return single_line(value, most).strip() if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    found = [_text(each, _MAX_TEXT) for each in value[:_MAX_ITEMS]] if isinstance(value, list) else []
    return [each for each in found if each]
