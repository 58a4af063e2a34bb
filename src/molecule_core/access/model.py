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
    resource: str = ""
    """Address of the only resource that the credential is for; empty: it is for all of the server."""
    granted_by: str = ""
    """The person who granted an OAuth client this credential."""
    grant_id: str = ""
    """The OAuth grant that the credential belongs to; its tokens change, and the grant stays."""
    is_read_only: bool = False
    """Whether the credential may only read."""

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
    """Domain event: a person was added, or accepted an invitation.

    Handled in the same transaction (store/subscribers.py)."""

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


class RegisteredClient(Struct, frozen=True):
    """An OAuth client that is registered. `org_id` is empty for one that registered itself. Times in microseconds."""

    id: str
    org_id: str
    name: str
    redirect_uris: tuple[str, ...]
    created_at: int


class GrantRequest(Struct, frozen=True):
    """What an OAuth client asks for and a person grants: one workspace, for a time, at one resource."""

    client_id: str
    client_name: str
    redirect_uri: str
    challenge: str
    """The PKCE challenge (S256)."""
    resource: str
    scope: str
    org_id: str
    workspace_id: str
    person_id: str
    seconds: int


class OAuthGrant(Struct, frozen=True):
    """A grant of a person to an OAuth client. Times in microseconds.

    `started_at` is None until the client has exchanged its code."""

    id: str
    org_id: str
    workspace_id: str
    person_id: str
    client_id: str
    client_name: str
    scope: str
    created_at: int
    expires_at: int
    started_at: int | None = None


class IssuedGrantTokens(Struct, frozen=True):
    """New tokens of a grant, shown only here. `expires_at` is of the access token (microseconds)."""

    access_token: str
    refresh_token: str
    scope: str
    expires_at: int


ADMIN = Caller(kind=CredentialKind.ADMIN, id="admin", org_id="", role=Role.OWNER, name="admin")
"""The caller with the server's admin token: an owner of every organisation."""

METRICS = Caller(kind=CredentialKind.METRICS, id="metrics", org_id="", role=Role.VIEWER, name="metrics")
"""The caller with the token that reads the server's metrics."""
