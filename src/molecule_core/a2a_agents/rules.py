"""Decisions about A2A agents of others: where a credential may go, how often a task is polled. Pure functions."""

from typing import Any

from molecule_core.a2a_agents.model import A2ACredential, A2ACredentialKind
from molecule_core.common.errors import InvalidField, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.parsed_url import parse_url
from molecule_core.wire.protocols.a2a_card import AgentCard, ApiKeyPlace

_LOCATIONS = {"header": "", "cookie": "="}
_MAX_DOUBLINGS = 10


def origin_of(url: str, limits: Limits) -> str:
    """Return the scheme, host and port of a url. Raises UnsafeUrl."""
    parsed = parse_url(url, limits.url_length)
    return f"{parsed.scheme}://{parsed.authority}"


def complete_credential(
    kind: str, secret: str, card_url: str, card: AgentCard, limits: Limits, **more: Any
) -> A2ACredential:
    """Return a credential with what the card says about it, and the origins that it may be sent to.

    `more`: header, client_id, token_url and scopes, if a person names them. Raises InvalidField, UnsafeUrl."""
    if kind not in tuple(A2ACredentialKind):
        raise InvalidField(reason="the kind of the credential is unknown. Use bearer, api_key or oauth2.")
    if not secret or not secret.isascii() or not secret.isprintable():
        raise InvalidField(reason="the secret of the credential is empty or has characters that no header can carry.")
    origins = tuple(dict.fromkeys(origin_of(url, limits) for url in (card_url, card.interface.url)))
    header, prefix, token_url = "", "", ""
    if kind == A2ACredentialKind.API_KEY:
        place = ApiKeyPlace("header", more["header"]) if more.get("header") else card.api_key
        if place is None:
            raise InvalidField(
                reason="the agent card does not say which header carries the API key. Name it in the credential."
            )
        if place.location not in _LOCATIONS:
            raise InvalidField(
                reason="the agent card wants the API key in the url, where logs would keep it. Use another credential."
            )
        is_cookie = place.location == "cookie"
        header, prefix = ("Cookie", f"{place.name}=") if is_cookie else (place.name, "")
    if kind == A2ACredentialKind.OAUTH2:
        token_url = more.get("token_url") or card.token_url or ""
        if not token_url:
            raise InvalidField(
                reason="the agent card names no token endpoint for client credentials. Name it in the credential."
            )
        if not more.get("client_id"):
            raise InvalidField(reason="an OAuth2 credential needs a client_id.")
        origin_of(token_url, limits)
    return A2ACredential(
        kind=A2ACredentialKind(kind),
        secret=secret,
        header=header,
        prefix=prefix,
        client_id=more.get("client_id") or "",
        token_url=token_url,
        scopes=tuple(more.get("scopes") or (card.scopes if kind == A2ACredentialKind.OAUTH2 else ())),
        origins=origins,
    )


def check_origin(credential: A2ACredential, url: str, limits: Limits) -> None:
    """Raise UnsafeUrl if a credential may not be sent to a url: the card names another address since it was set."""
    origin = origin_of(url, limits)
    if origin not in credential.origins:
        raise UnsafeUrl(
            reason=f"the agent card now names {origin}, to which the credential was not given",
            advice="Set the credential of the workspace again to allow this address.",
        )


def poll_delay(polls: int, limits: Limits) -> int:
    """Return the seconds until the next poll of a task: 1, 2, 4 and so on, at most `limits.a2a_poll_seconds`."""
    return min(1 << min(polls, _MAX_DOUBLINGS), limits.a2a_poll_seconds)
