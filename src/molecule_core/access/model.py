"""Credentials and those who hold them."""

from enum import StrEnum

from msgspec import Struct


class CredentialKind(StrEnum):
    """The kinds of credential. They share no table; the one for figures opens nothing else and is no one's."""

    PERSON = "person"
    WORKSPACE = "workspace"
    ADMIN = "admin"
    METRICS = "metrics"


class Role(StrEnum):
    """What a person may do in the organisation; each may also do what the ones before may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    OWNER = "owner"


class Caller(Struct, frozen=True):
    """Who the credential proves it is. `org_id` is empty for the admin, who belongs to every organisation."""

    kind: CredentialKind
    id: str
    org_id: str
    role: Role
    name: str
    expires_at: int | None = None


class Person(Struct, frozen=True):
    """Somebody who looks at the canvas. Times in microseconds."""

    id: str
    org_id: str
    name: str
    role: str
    created_at: int


class Token(Struct, frozen=True):
    """A live token as lists show it: never the token itself. Times in microseconds; without an end it lives on."""

    id: str
    hint: str
    created_at: int
    expires_at: int | None
    hash: str


class IssuedToken(Struct, frozen=True):
    """A new token, shown this once."""

    info: Token
    token: str


class RotatedToken(Struct, frozen=True):
    """A workspace has a new token. The old ones, by their hashes, end at `ends_at` (microseconds)."""

    issued: IssuedToken
    ended_hashes: list[str]
    ends_at: int


class Invitation(Struct, frozen=True):
    """Somebody may come in as this person, once. Times in microseconds."""

    id: str
    org_id: str
    name: str
    role: str
    invited_by: str
    created_at: int
    expires_at: int


class Login(Struct, frozen=True):
    """Somebody has logged in. `session` is the token of the session, shown this once; times in microseconds."""

    person: Person
    session: str
    expires_at: int


ADMIN = Caller(kind=CredentialKind.ADMIN, id="admin", org_id="", role=Role.OWNER, name="admin")
"""The holder of the server's own token: an owner of every organisation."""

METRICS = Caller(kind=CredentialKind.METRICS, id="metrics", org_id="", role=Role.VIEWER, name="metrics")
"""The holder of the token that reads the server's figures."""
