"""Credentials and their holders."""

from enum import StrEnum

from msgspec import Struct


class CredentialKind(StrEnum):
    """The kinds of credential. They share no table. The metrics token grants nothing else and belongs to no holder."""

    PERSON = "person"
    WORKSPACE = "workspace"
    ADMIN = "admin"
    METRICS = "metrics"
    RUNNER = "runner"


class Role(StrEnum):
    """Role of a person in the organisation. Each role includes the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    OWNER = "owner"


class Caller(Struct, frozen=True):
    """The authenticated holder of a credential. `org_id` is empty for the admin, who belongs to every organisation."""

    kind: CredentialKind
    id: str
    org_id: str
    role: Role
    name: str
    expires_at: int | None = None

    @property
    def key(self) -> str:
        """Return kind and id as one text, unique among all callers: `workspace:0197f3a2-...`."""
        return f"{self.kind.value}:{self.id}"


class Person(Struct, frozen=True):
    """A person who uses the canvas. Times in microseconds."""

    id: str
    org_id: str
    name: str
    role: str
    created_at: int


class PersonJoined(Struct, frozen=True):
    """Domain event: an invitation was accepted. Handled in the same transaction (store/subscribers.py)."""

    person_id: str


class Token(Struct, frozen=True):
    """A live token as lists show it, without the token itself. Times in microseconds; `expires_at` None: never."""

    id: str
    hint: str
    created_at: int
    expires_at: int | None
    hash: str


class IssuedToken(Struct, frozen=True):
    """A new token; `token` is shown only here."""

    info: Token
    token: str


class RotatedToken(Struct, frozen=True):
    """The new token of a workspace. The old ones, given by their hashes, end at `ends_at` (microseconds)."""

    issued: IssuedToken
    ended_hashes: list[str]
    ends_at: int


class RotatedPushSecret(Struct, frozen=True):
    """The new secret that signs the pushes to a workspace, shown only here.

    `ended`: how many secrets end at `ends_at` (microseconds) because of it, 0 or 1."""

    secret: str
    ended: int
    ends_at: int


class Invitation(Struct, frozen=True):
    """An invitation, used once, to join as this person. Times in microseconds."""

    id: str
    org_id: str
    name: str
    role: str
    invited_by: str
    created_at: int
    expires_at: int


class Login(Struct, frozen=True):
    """Result of a login. `session` is the session token, shown only here. Times in microseconds."""

    person: Person
    session: str
    expires_at: int


ADMIN = Caller(kind=CredentialKind.ADMIN, id="admin", org_id="", role=Role.OWNER, name="admin")
"""The caller with the server's admin token: an owner of every organisation."""

METRICS = Caller(kind=CredentialKind.METRICS, id="metrics", org_id="", role=Role.VIEWER, name="metrics")
"""The caller with the token that reads the server's metrics."""
