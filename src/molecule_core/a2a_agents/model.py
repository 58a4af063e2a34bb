"""A2A agents of others: how they are reached, and their tasks."""

import json
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.wire.protocols.a2a_card import AgentCard

A2A_CARD_TIMER = "a2a_card"
"""The kind of the timer that checks an agent's card; its key is the workspace."""
A2A_TASK_TIMER = "a2a_task"
"""The kind of the timer that follows a task; its key is `workspace/activity`."""


class A2ACredentialKind(StrEnum):
    """A kind of credential for an A2A agent."""

    BEARER = "bearer"
    API_KEY = "api_key"
    OAUTH2 = "oauth2"


class TaskUpdates(StrEnum):
    """How the server learns of changes of the tasks of an A2A agent."""

    STREAM = "stream"
    PUSH = "push"
    POLL = "poll"


class A2ACredential(Struct, frozen=True, kw_only=True):
    """A credential for an A2A agent, stored as it is because the server presents it. Its text form hides the secret.

    `secret`: the token, the key, or the secret of an OAuth2 client. `origins`: the only ones it is sent to, those that
    the card named when a person set the credential."""

    kind: A2ACredentialKind
    secret: str
    header: str = ""
    """The header of an API key."""
    prefix: str = ""
    """Precedes an API key in its header: the name of a cookie."""
    client_id: str = ""
    token_url: str = ""
    scopes: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"A2ACredential({self.kind.value})"


class CardSignature(StrEnum):
    """What is known of the signature of an agent card."""

    VERIFIED = "verified"
    NOT_CHECKED = "not_checked"
    """Signed, and no key of its signer was named."""
    NONE = "none"


class CardKeys(Struct, frozen=True, kw_only=True):
    """The public keys that sign the card of an A2A agent: one as PEM, or the address of a JSON Web Key Set."""

    pem: str = ""
    jwks_url: str = ""


class A2AAgent(Struct, frozen=True):
    """The A2A agent of a workspace, in column order. `card` and `credential` are JSON text.

    `checked_at`: when the card was last fetched, or 0. `error`: why the last check failed. `notification_key`: derives
    the tokens of push notifications; empty until the card is checked. `card_keys`: JSON text, or None; without a
    signature of one of them the card is refused. `signature`: a CardSignature."""

    workspace_id: str
    org_id: str
    card_url: str
    etag: str | None
    card: str
    credential: str | None
    checked_at: int
    error: str | None
    notification_key: str
    card_keys: str | None = None
    signature: str = CardSignature.NONE.value

    def __repr__(self) -> str:
        return f"A2AAgent({self.workspace_id})"

    def parsed_card(self) -> AgentCard:
        """Return what the server needs of the card."""
        return msgspec.json.decode(self.card, type=AgentCard)

    def parsed_credential(self) -> A2ACredential | None:
        """Return the credential, or None."""
        return None if self.credential is None else msgspec.json.decode(self.credential, type=A2ACredential)

    def parsed_card_keys(self) -> CardKeys | None:
        """Return the keys that sign the card, or None."""
        return None if self.card_keys is None else msgspec.json.decode(self.card_keys, type=CardKeys)


class FetchedCard(Struct, frozen=True):
    """A card as its agent sent it, or what of it is signed, and what the server needs of it."""

    card: dict[str, Any]
    parsed: AgentCard
    etag: str | None
    signature: CardSignature


class RemoteTask(Struct, frozen=True):
    """A task at an A2A agent that carries one of our messages, in column order.

    `conversation`: our context of the message. `state`: of the task, as A2A 0.3 spells it; `continued` if a later
    message continues it. `claim`: numbers the followers of the task. `asked`: identifies its last question.
    `due`: when it is looked at next (microseconds), or 0. `notified`: how often its agent has notified us of a change.
    `leased_until`: how long its follower has it (microseconds), or 0."""

    workspace_id: str
    activity_id: str
    org_id: str
    seq: int
    source_id: str | None
    kind: str | None
    conversation: str
    task_id: str
    context_id: str | None
    state: str
    claim: int
    polls: int
    failures: int
    asked: str | None
    due: int
    created_at: int
    updated_at: int
    notified: int = 0
    leased_until: int = 0

    @property
    def key(self) -> str:
        """Return the key of its timer."""
        return f"{self.workspace_id}/{self.activity_id}"


def encode_card(card: AgentCard) -> str:
    """Return what the server needs of a card as text."""
    return msgspec.json.encode(card).decode()


def encode_card_keys(keys: CardKeys | None) -> str | None:
    """Return the keys of a card as text."""
    return None if keys is None else msgspec.json.encode(keys).decode()


def encode_credential(credential: A2ACredential | None) -> str | None:
    """Return a credential as text."""
    return None if credential is None else msgspec.json.encode(credential).decode()


def same_card(stored: str | None, card: Any) -> bool:
    """Return whether a stored card is this one."""
    return stored is not None and json.loads(stored) == card
