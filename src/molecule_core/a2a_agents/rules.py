"""Decisions about A2A agents of others: where a credential may go, when a task is looked at. Pure functions."""

import hashlib
import hmac
from typing import Any

from msgspec.structs import replace

from molecule_core.a2a_agents.model import (
    A2AAgent,
    A2ACredential,
    A2ACredentialKind,
    RemoteTask,
    TaskUpdates,
)
from molecule_core.common.clock import SECOND
from molecule_core.common.errors import InvalidField, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.parsed_url import parse_url
from molecule_core.wire.protocols.a2a_card import AgentCard, ApiKeyPlace

_LOCATIONS = {"header": "", "cookie": "="}
_MAX_DOUBLINGS = 10
# 1 s: an agent that notifies of every word is asked for the task at most so often.
_MIN_LOOK_SECONDS = 1


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


def poll_delay(task: RemoteTask, polls: int, limits: Limits) -> int:
    """Return the seconds until the next poll of a task: 1, 2, 4 and so on, at most `limits.a2a_poll_seconds`.

    A task whose agent has notified us is polled rarely: the next change comes by itself, and a poll only finds what was
    lost on the way."""
    if task.notified:
        return limits.a2a_notified_poll_seconds
    return min(1 << min(polls, _MAX_DOUBLINGS), limits.a2a_poll_seconds)


# -- push notifications ------------------------------------------------------------------------------------------------


def updates_of(card: AgentCard, public_url: str) -> TaskUpdates:
    """Return how the server learns of changes of an agent's tasks. Notifications need an address of ours."""
    if card.streaming:
        return TaskUpdates.STREAM
    return TaskUpdates.PUSH if card.push_notifications and public_url else TaskUpdates.POLL


def notification_token(agent: A2AAgent, activity_id: str) -> str:
    """Return the token that an agent sends with notifications of the task of a message.

    It is derived, not stored: a message that is sent again after a kill of the server has the same one."""
    text = f"a2a notification\0{agent.workspace_id}\0{activity_id}"
    return hmac.new(agent.notification_key.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_notification_token(agent: A2AAgent, activity_id: str, given: str) -> bool:
    """Return whether a notification has the token of a task, without a hint by the time that it takes."""
    if not agent.notification_key:
        return False
    expected = notification_token(agent, activity_id)
    return hmac.compare_digest(expected.encode(), given.encode())


def with_notification(task: RemoteTask, now: int) -> RemoteTask:
    """Return an open task after a notification: looked at now, unless a follower has it, which then looks again."""
    noted = replace(task, notified=task.notified + 1)
    if task.leased_until > now:
        return noted
    return replace(noted, due=min(task.due, max(now, task.updated_at + _MIN_LOOK_SECONDS * SECOND)))


def after_look(known: RemoteTask, shown: RemoteTask, now: int) -> RemoteTask:
    """Return a task as its follower leaves it. `known`: as it is stored, with notifications since it was claimed."""
    left = replace(shown, notified=known.notified, leased_until=0)
    if known.notified == shown.notified or not shown.due:
        return left
    return replace(left, due=min(shown.due, now + _MIN_LOOK_SECONDS * SECOND))
