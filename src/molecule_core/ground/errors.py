"""Every refusal Molecule can give. The docstring of a class is the text a person reads: what is wrong, what to do.

`edges/problems.py` holds the one table from these classes to codes of HTTP and JSON-RPC; docs/errors.md lists them.
"""

from typing import Any

from molecule_core.ground.base_error import MoleculeError
from molecule_core.ground.failures import (
    BackupFailed,
    BadSettings,
    ChainsFailed,
    CommandFailed,
    LoginLinkFailed,
    MemoryFailed,
    OrgFileFailed,
    PruneFailed,
    RateLimited,
    SchemaTooNew,
    ServerBusy,
    StateInUse,
    StoreDamaged,
    StoreUnavailable,
    TooManyOpen,
    Unexpected,
)

# Beside those below: whoever looks for a refusal finds all of them here.
__all__ = (
    "BackupFailed",
    "BadSettings",
    "ChainsFailed",
    "CommandFailed",
    "LoginLinkFailed",
    "MemoryFailed",
    "MoleculeError",
    "OrgFileFailed",
    "PruneFailed",
    "RateLimited",
    "SchemaTooNew",
    "ServerBusy",
    "StateInUse",
    "StoreDamaged",
    "StoreUnavailable",
    "TooManyOpen",
    "Unexpected",
)


# -- the request itself ------------------------------------------------------------------------------------------------


class InvalidJson(MoleculeError):
    """the body is not valid JSON: {reason}. Send one JSON value in UTF-8."""


class JsonTooDeep(MoleculeError):
    """the body nests deeper than {limit} levels. Flatten it."""


class BodyTooLarge(MoleculeError):
    """the body is larger than {limit} bytes. Send less, or send a file as an attachment."""


class BodyTooSlow(MoleculeError):
    """the body did not arrive within {seconds} seconds. Send it again on a better connection."""


class HeadersTooLarge(MoleculeError):
    """the request's headers are larger than {limit} bytes. Send fewer or shorter headers."""


class HeadersTooSlow(MoleculeError):
    """the request's headers did not arrive within {seconds} seconds. Send them again in one piece."""


class BadHttp(MoleculeError):
    """this is not valid HTTP/1.1. Send one request as the standard has it."""


class WrongHost(MoleculeError):
    """this server does not answer for the host name {host!r}. Use its own address, or let the operator add that name
    with --allowed-host."""


class NotFound(MoleculeError):
    """{what} not found: there is none, or you may not see it. Check what you named it by, or list what you see."""


class NoSuchRoute(MoleculeError):
    """no such path. GET /openapi.json lists what this server offers."""


class MethodNotAllowed(MoleculeError):
    """this path takes {allowed}, not {method}."""


class WebSocketNeeded(MoleculeError):
    """this path speaks WebSocket (version 13). Connect with a WebSocket client, or read GET /events/stream."""


class InvalidField(MoleculeError):
    """invalid request: {reason}"""


# -- identity ----------------------------------------------------------------------------------------------------------


class MissingCredential(MoleculeError):
    """missing workspace auth token: send the header 'Authorization: Bearer <token>'"""


class InvalidCredential(MoleculeError):
    """invalid workspace auth token: it is mistyped, expired or revoked; ask the operator for a new one"""


class InvalidLogin(MoleculeError):
    """this login link was used before, or is too old. Ask for a new one: molecule login-link"""


class CrossOrigin(MoleculeError):
    """this request comes from another page than this server's own. Open the server's own address, or use a token."""


class CredentialNotAccepted(MoleculeError):
    """this path does not take a {kind} credential; it takes: {takes}"""


class RoleTooLow(MoleculeError):
    """your role {role!r} may not do this; it takes {needed!r}. Ask an owner of the organisation."""


class InvalidCaller(MoleculeError):
    """invalid caller ID: the header X-Workspace-ID must name the workspace of the token, or be left out"""


class MayNotTalk(MoleculeError):
    """access denied: workspaces cannot communicate per hierarchy rules (parent, children and siblings can)"""


# -- organisation ------------------------------------------------------------------------------------------------------


class InvalidName(MoleculeError):
    """invalid name: {reason}"""


class InvalidParent(MoleculeError):
    """invalid parent_id: {reason}"""


class OrgExists(MoleculeError):
    """an organisation named {name!r} exists already. Choose another name."""


class UrlMissing(MoleculeError):
    """url is required for push-mode workspaces"""


class WorkspaceRemoved(MoleculeError):
    """workspace removed"""

    @property
    def extras(self) -> dict[str, Any]:
        hint = "this workspace was removed by its operator; stop its agent, or ask for a new workspace"
        return {"id": self.details["id"], "removed_at": self.details["removed_at"], "hint": hint}


class ConfirmationRequired(MoleculeError):
    """{verb} {name!r} also removes the {children_count} below it: repeat with ?confirm=true. A name beside it must be
    its own."""

    @property
    def extras(self) -> dict[str, Any]:
        told = {name: value for name, value in self.details.items() if name != "verb"}
        return {"status": "confirmation_required", **told}


class StatusForbids(MoleculeError):
    """{name!r} is {status}: {reason}"""


class TooManyTokens(MoleculeError):
    """there are {limit} live tokens already. Revoke one that is not used any more."""


class LastOwner(MoleculeError):
    """{name!r} is the last owner of the organisation. Make somebody else an owner first."""


# -- messages ----------------------------------------------------------------------------------------------------------


class InvalidMessage(MoleculeError):
    """invalid message: {reason}"""


class UnknownMethod(MoleculeError):
    """unknown method {method!r}; this path takes: {known}"""


class A2AVersionNotSupported(MoleculeError):
    """A2A version {version!r} is not supported here; supported: {supported}"""


class MessageIdReused(MoleculeError):
    """the id {message_id!r} was already used for another message. Use a new messageId for new content."""


class InboxFull(MoleculeError):
    """the inbox of this workspace holds {limit} unhandled messages; try again when its agent has caught up"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 30}


class ChainFrozen(MoleculeError):
    """this chain of messages ran into a limit ({reason}) and waits for a person, who releases or ends it. Send nothing
    more in it (its root is {root_id}); a person's next message begins a new one."""

    @property
    def extras(self) -> dict[str, Any]:
        return {**self.details, "retry_after": 60}


class ChainEnded(MoleculeError):
    """a person has ended this chain of messages. No message of it is taken any more (its root is {root_id}); a person's
    next message begins a new one."""

    @property
    def extras(self) -> dict[str, Any]:
        return self.details


class ChainNotFrozen(MoleculeError):
    """this chain is {state}: there is nothing to decide about it"""


class BroadcastDisabled(MoleculeError):
    """broadcast_disabled"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"hint": "this workspace may not write to all others; the operator can switch broadcast_enabled on"}


class BroadcastTooWide(MoleculeError):
    """this broadcast would go to {count} workspaces, and one may go to {limit}. Write to those it concerns."""


class TalkToUserDisabled(MoleculeError):
    """talk_to_user_disabled"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"hint": "this workspace may not write to the user; an owner can switch talk_to_user_enabled on"}


class CursorGone(MoleculeError):
    """{name} cursor not found (pruned, foreign or never issued); omit {name} to reset"""


class StaleAttempt(MoleculeError):
    """this ack is for attempt {attempt}, but the message was handed out again as attempt {current}. Handle that one."""


class NotDead(MoleculeError):
    """this message is no dead letter any more: it was {state}. GET its ticks to see where it is."""


class NotTaken(MoleculeError):
    """the agent did not take this message ({reason}): {detail}. It is a dead letter; an operator can requeue it."""


class UnknownHandle(MoleculeError):
    """reply handle not found: this workspace has no message that it names. Copy it from the instructions of the message
    that you answer, as it stands there."""


class StaleHandle(MoleculeError):
    """the message of this reply handle is {state} already. {advice}"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"handle": self.details["handle"]} if self.details["handle"] else {}


class HandleOfAnother(MoleculeError):
    """this reply handle answers {whom}, not whom you write to. Send it there, or leave the handle out."""


class NoDraft(MoleculeError):
    """there is no draft that waits: this message is {state}"""


class AttemptMissing(MoleculeError):
    """this message was handed out by a claim: name its attempt in the ack"""


# -- what the server fetches from elsewhere ----------------------------------------------------------------------------


class UnsafeUrl(MoleculeError):
    """this url cannot be used: {reason}"""


class FetchFailed(MoleculeError):
    """the other side could not be reached, or gave no usable answer: {reason}"""


# -- files -------------------------------------------------------------------------------------------------------------


class InvalidUpload(MoleculeError):
    """this upload cannot be read: {reason}. Send files as multipart/form-data, each in a field named 'files'."""


class FileTooLarge(MoleculeError):
    """this file is larger than {limit} bytes. Send it in smaller parts, or send a link to it."""


class NoRoom(MoleculeError):
    """there is no room for files on the server's disk; nothing of this upload was kept. Tell the operator, then try
    again."""


class FilesUnavailable(MoleculeError):
    """the server's folder of files does not work; nothing of this upload was kept. Tell the operator, then try
    again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 30}


class NoPreview(MoleculeError):
    """this file has no preview: only PNG, JPEG, GIF and WebP pictures have one. Download it."""


# -- memory ------------------------------------------------------------------------------------------------------------


class ScopeForbidden(MoleculeError):
    """GLOBAL memories are written by workspaces at the top of the organisation. Use the scope TEAM, or ask one of
    them."""


class MemoryOfAnother(MoleculeError):
    """this memory was written by another workspace, and only that one or an owner of the organisation can forget it"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"workspace_id": self.details["workspace_id"]}


class TooManyKept(MoleculeError):
    """this workspace has {limit} {what} already. Forget some that are not needed any more."""


class VersionMismatch(MoleculeError):
    """the key has version {current_version}, not {expected_version} (0: it is not there). Read it again, then decide
    anew."""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)
