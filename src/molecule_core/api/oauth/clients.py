"""OAuth clients: registered by an owner, by themselves if the setting allows it, or described by a document of theirs.

A document is read only when a person who is logged in looks at the page for consent, through the safe fetcher."""

from collections import OrderedDict
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from molecule_core.access.model import RegisteredClient, Role
from molecule_core.access.oauth_grants import OAuthGrantReader, OAuthGrantWriter
from molecule_core.access.oauth_rules import GrantRefused, is_registered_redirect, is_valid_redirect
from molecule_core.api.http.response import Response
from molecule_core.api.oauth.metadata import REGISTER_PATH
from molecule_core.api.oauth.protocol import error_json, oauth_json
from molecule_core.api.rate_limits import RateClass
from molecule_core.api.routing import (
    PERSON_OR_ADMIN,
    PUBLIC,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import (
    CapacityExceeded,
    FetchFailed,
    InvalidField,
    InvalidJson,
    InvalidName,
    JsonTooDeep,
    RouteNotFound,
    UnsafeUrl,
)
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.common.settings import Settings
from molecule_core.common.text import truncate_line, validate_name
from molecule_core.wire.protocols import strict_json

_DOCUMENT_SECONDS = 5
# A document is shown again after the person has logged in, and is not fetched twice for that.
_CACHE_SECONDS, _MAX_CACHED = 120, 100
_UNKNOWN_CLIENT = "the client is not registered at this server"


class FoundClient(Struct, frozen=True):
    """Client of an authorization request. `org_id`: the only organisation that it is for; empty: any.

    `host` is set for a client with a document: it has shown that it controls this host. Names prove nothing."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    org_id: str = ""
    host: str = ""

    @property
    def is_registered(self) -> bool:
        """Return whether the server has a record of it."""
        return not self.host


class ClientDirectory:
    """Finds clients by their ids."""

    def __init__(self, reader: OAuthGrantReader, fetcher: Fetcher, *, clock: Clock, settings: Settings) -> None:
        self._reader = reader
        self._fetcher = fetcher
        self._clock = clock
        self._limits = settings.limits
        self._reads_documents = settings.oauth_client_documents
        self._documents: OrderedDict[str, tuple[int, FoundClient]] = OrderedDict()

    async def find_client(self, client_id: str, redirect_uri: str) -> FoundClient:
        """Return the client of an authorization request, whose redirect address is one of its own.

        Raises GrantRefused."""
        is_document = client_id.startswith("https://")
        client = await (self._fetched_client(client_id) if is_document else self._registered_client(client_id))
        if not is_registered_redirect(redirect_uri, client.redirect_uris):
            raise GrantRefused("invalid_request", "the redirect address is not one of those of the client")
        return client

    async def _registered_client(self, client_id: str) -> FoundClient:
        found = await self._reader.client(client_id)
        if found is None:
            raise GrantRefused("invalid_client", _UNKNOWN_CLIENT)
        return FoundClient(found.id, found.name, found.redirect_uris, found.org_id)

    async def _fetched_client(self, client_id: str) -> FoundClient:
        if not self._reads_documents:
            raise GrantRefused("invalid_client", _UNKNOWN_CLIENT)
        host = _document_host(client_id)
        if client_id in self._documents and self._documents[client_id][0] > self._clock.now():
            return self._documents[client_id][1]
        headers, limit = {"Accept": "application/json"}, self._limits.oauth_document_bytes
        try:
            result = await self._fetcher.get(client_id, headers, timeout_seconds=_DOCUMENT_SECONDS, max_bytes=limit)
        except (UnsafeUrl, FetchFailed):
            raise GrantRefused("invalid_client", "the document of the client cannot be read") from None
        if result.status != 200:
            raise GrantRefused("invalid_client", "the document of the client cannot be read")
        client = _client_of_document(client_id, host, result.body, self._limits)
        self._documents[client_id] = (self._clock.now() + _CACHE_SECONDS * SECOND, client)
        self._documents.move_to_end(client_id)
        while len(self._documents) > _MAX_CACHED:
            self._documents.popitem(last=False)
        return client


def _document_host(client_id: str) -> str:
    """Return the host of a document's address. Raises GrantRefused if the address cannot be the id of a client."""
    try:
        parts = urlsplit(client_id)
        port = parts.port
    except ValueError:
        raise GrantRefused("invalid_client", _UNKNOWN_CLIENT) from None
    segments = parts.path.split("/")
    is_valid = (
        bool(parts.hostname)
        and parts.path not in ("", "/")
        and not parts.fragment
        and "#" not in client_id
        and parts.username is None
        and parts.password is None
        and "." not in segments
        and ".." not in segments
        and client_id.isascii()
        and client_id.isprintable()
        and " " not in client_id
    )
    if not is_valid:
        raise GrantRefused("invalid_client", "the id of the client is not the address of a document")
    return f"{parts.hostname}" if port is None else f"{parts.hostname}:{port}"


def _client_of_document(client_id: str, host: str, body: bytes, limits: Limits) -> FoundClient:
    invalid = GrantRefused("invalid_client", "the document of the client is not valid")
    try:
        document = strict_json.decode(body, max_depth=limits.json_depth)
    except (InvalidJson, JsonTooDeep):
        raise invalid from None
    if not isinstance(document, dict) or document.get("client_id") != client_id:
        raise invalid
    name, uris = document.get("client_name"), document.get("redirect_uris")
    if not isinstance(name, str) or not isinstance(uris, list) or not _are_valid_redirects(uris, limits):
        raise invalid
    if document.get("token_endpoint_auth_method", "none") != "none":
        raise GrantRefused("invalid_client", "the client must have the token_endpoint_auth_method none")
    return FoundClient(client_id, truncate_line(name, limits.name_length) or host, tuple(uris), host=host)


def _are_valid_redirects(uris: Any, limits: Limits) -> bool:
    return (
        isinstance(uris, list)
        and 0 < len(uris) <= limits.oauth_redirect_uris
        and all(isinstance(each, str) and is_valid_redirect(each) for each in uris)
    )


class RegisterClientBody(Struct, forbid_unknown_fields=True):
    """An OAuth client to register. It has no secret; it must use PKCE."""

    name: str
    redirect_uris: list[str]


class ClientMetadataBody(Struct):
    """Metadata of an OAuth client that registers itself; other members are ignored (RFC 7591)."""

    redirect_uris: list[str]
    client_name: str = ""


class OAuthClientView(Struct, frozen=True):
    """A registered OAuth client. `client_id` is no secret."""

    client_id: str
    name: str
    redirect_uris: list[str]
    created_at: str


class OAuthClientRoutes:
    """Routes of an organisation's OAuth clients, and the one by which clients register themselves."""

    def __init__(self, writer: OAuthGrantWriter, reader: OAuthGrantReader, *, settings: Settings) -> None:
        self._writer = writer
        self._reader = reader
        self._limits = settings.limits
        self._is_dynamic = settings.oauth_dynamic_registration and bool(settings.oauth_issuer)

    def routes(self) -> list[Route]:
        """Return the routes."""
        owner = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OWNER)
        clients = "/orgs/{org_id}/oauth-clients"
        return [
            Route("GET", clients, self.list_clients, owner, "List OAuth clients", None, list[OAuthClientView]),
            Route(
                "POST",
                clients,
                self.register_client,
                owner,
                "Register an OAuth client",
                RegisterClientBody,
                OAuthClientView,
                201,
            ),
            Route(
                "DELETE",
                f"{clients}/{{client_id}}",
                self.remove_client,
                owner,
                "Remove an OAuth client and end what it was granted",
            ),
            Route(
                "POST",
                REGISTER_PATH,
                self.register_itself,
                PUBLIC,
                "Register an OAuth client dynamically (RFC 7591)",
                ClientMetadataBody,
                rate_class=RateClass.LOGIN,
                status=201,
            ),
        ]

    async def list_clients(self, request: Request) -> Response:
        """List the registered clients of an organisation, oldest first."""
        found = await self._reader.clients(request.path_params["org_id"])
        return json_response([_client_view(each) for each in found])

    async def register_client(self, request: Request) -> Response:
        """Register a client that people of this organisation may connect to workspaces."""
        body = request.parse_body(RegisterClientBody)
        if not _are_valid_redirects(body.redirect_uris, self._limits):
            raise InvalidField(
                reason="redirect_uris is not valid. Send 1 to "
                f"{self._limits.oauth_redirect_uris} addresses: https, http of this machine, or the scheme of an app."
            )
        name = validate_name(body.name, self._limits.name_length)
        client = await self._writer.register_client(request.path_params["org_id"], name, body.redirect_uris)
        return json_response(_client_view(client), 201)

    async def remove_client(self, request: Request) -> Response:
        """Remove a client; its tokens become invalid at once."""
        client_id = request.path_param("client_id", "OAuth client")
        client = await self._writer.remove_client(request.path_params["org_id"], client_id)
        return json_response({"status": "removed", "client_id": client.id})

    async def register_itself(self, request: Request) -> Response:
        """Register a client on its own request; 404 unless the setting allows it."""
        if not self._is_dynamic:
            raise RouteNotFound
        try:
            metadata = request.json()
        except (InvalidJson, JsonTooDeep):
            metadata = None
        if not isinstance(metadata, dict):
            return error_json(GrantRefused("invalid_client_metadata", "the body must be a JSON object"))
        if not _are_valid_redirects(metadata.get("redirect_uris"), self._limits):
            return error_json(GrantRefused("invalid_redirect_uri", "redirect_uris is missing or not valid"))
        try:
            name = validate_name(str(metadata.get("client_name") or "Unnamed app"), self._limits.name_length)
            client = await self._writer.register_client("", name, metadata["redirect_uris"])
        except InvalidName:
            return error_json(GrantRefused("invalid_client_metadata", "client_name is not valid"))
        except CapacityExceeded:
            return error_json(GrantRefused("temporarily_unavailable", "too many clients are registered"), 429)
        registered = {
            "client_id": client.id,
            "client_id_issued_at": client.created_at // SECOND,
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        return oauth_json(registered, 201)


def _client_view(client: RegisteredClient) -> OAuthClientView:
    return OAuthClientView(client.id, client.name, list(client.redirect_uris), to_rfc3339(client.created_at))
