"""Errors that the package raises for a caller. People and models read their texts: a reason, then an advice.

A class's docstring is its reason, the attribute `advice` what to do. The codes and HTTP statuses are in one table,
`api/errors.py`.
"""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    # Small commands load this module and must not pay for importing asyncio.
    import asyncio


class MoleculeError(Exception):
    """the request failed."""

    advice: ClassVar[str] = "Try again, or contact the operator."
    """One imperative sentence: what the caller can do. Like the docstring, it may name details in braces."""

    def __init__(self, **details: Any) -> None:
        self.details = details
        super().__init__(self.template().format(**details))

    @classmethod
    def template(cls) -> str:
        """Return the text with the names of its details in braces."""
        return f"{' '.join((cls.__doc__ or '').split())} {cls.advice}".rstrip()

    @property
    def text(self) -> str:
        """Return the sentences for people."""
        return str(self)

    @property
    def extras(self) -> dict[str, Any]:
        """Return the members that are sent beside the text; existing clients read some by name."""
        return {}


class ReasonError(MoleculeError):
    """{reason}"""

    advice = ""  # the reason of the raise site ends with it


class WireTextError(MoleculeError):
    """an error whose whole text is fixed, because existing clients compare with it."""

    @classmethod
    def template(cls) -> str:
        return cls.__doc__ or ""

    @property
    def hint(self) -> str:
        """Return the advice, which is sent beside the text."""
        return self.advice.format(**self.details)


class LimitDetails:
    """Adds the limit, its use and the remedy to the response of an error about a limit."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {name: self.details[name] for name in ("limit", "use", "most", "remedy")}


def reject_future(future: "asyncio.Future[Any]", error: BaseException) -> None:
    """Set an error on a future. A MoleculeError is marked as retrieved.

    The waiter may be gone, and asyncio would log an unretrieved rejection as an error."""
    future.set_exception(error)
    if isinstance(error, MoleculeError):
        future.exception()


# -- requests ----------------------------------------------------------------------------------------------------------


class InvalidJson(MoleculeError):
    """the body is not valid JSON: {reason}."""

    advice = "Send one JSON object in UTF-8."


class JsonTooDeep(MoleculeError):
    """the body nests deeper than the limit of {limit} levels."""

    advice = "Send a flatter JSON value."


class BodyTooLarge(MoleculeError):
    """the body is larger than the limit of {limit} bytes."""

    advice = "Send less, or upload a file and attach it."


class BodyTimeout(MoleculeError):
    """the body did not arrive within the limit of {seconds} seconds."""

    advice = "Send the request again on a faster connection."


class HeadersTooLarge(MoleculeError):
    """the headers of the request are larger than the limit of {limit} bytes."""

    advice = "Send fewer or shorter headers."


class HeadersTimeout(MoleculeError):
    """the headers of the request did not arrive within the limit of {seconds} seconds."""

    advice = "Send the request again in one piece."


class BadHttp(MoleculeError):
    """the request is not valid HTTP/1.1."""

    advice = "Send a request that follows the standard."


class HostNotAllowed(MoleculeError):
    """this server does not accept the host name {host!r}."""

    advice = "Use the address of the server, or ask the operator to add the name with --allowed-host."


class NotFound(MoleculeError):
    """{what} not found, or you have no access to it."""

    advice = "Check the id, or list the ones you can access."


class RouteNotFound(MoleculeError):
    """this server has no such path."""

    advice = "Use a path of GET /openapi.json."


class MethodNotAllowed(MoleculeError):
    """this path does not accept the method {method}."""

    advice = "Use {allowed}."


class WebSocketRequired(MoleculeError):
    """this path requires WebSocket (version 13)."""

    advice = "Connect with a WebSocket client, or read GET /events/stream."


class InvalidField(ReasonError):
    """{reason}"""


# -- authentication and access -----------------------------------------------------------------------------------------


class MissingCredential(MoleculeError):
    """missing workspace auth token: this path requires one."""

    advice = "Send the header 'Authorization: Bearer <token>'."


class InvalidCredential(MoleculeError):
    """invalid workspace auth token: it is mistyped, expired or revoked."""

    advice = "Check the token, or ask the operator for a new one."


class InvalidLogin(MoleculeError):
    """this login link was already used or has expired."""

    advice = "Create a new one with `molecule login-link`."


class OtherSession(MoleculeError):
    """this browser is logged in as {current}, and the link is for {other}."""

    advice = "Send replace_session to continue as {other}."

    @property
    def extras(self) -> dict[str, Any]:
        return {"current": self.details["current"], "other": self.details["other"]}


class CrossOrigin(MoleculeError):
    """this server does not accept requests from a page of another origin."""

    advice = "Open the address of the server, or use a token."


class CredentialNotAccepted(MoleculeError):
    """this path does not accept a {kind} credential."""

    advice = "Use one of: {takes}."


class TokenOfOtherWorkspace(MoleculeError):
    """this token cannot act for the workspace that the request names: it belongs to another workspace."""

    advice = "Use the token of that workspace, or the id of the token's workspace."


class InsufficientRole(MoleculeError):
    """your role {role!r} does not allow this request; it requires the role {needed!r}."""

    advice = "Ask an owner of the organisation."


class InvalidCaller(MoleculeError):
    """invalid caller ID: the header X-Workspace-ID must name the workspace of the token."""

    advice = "Remove the header, or use the id of that workspace."


class CommunicationDenied(MoleculeError):
    """access denied: workspaces cannot communicate per hierarchy rules."""

    advice = "Send to your parent, your children or your siblings."


# -- organisations and workspaces --------------------------------------------------------------------------------------


class InvalidName(ReasonError):
    """{reason}"""


class InvalidParent(MoleculeError):
    """the workspace cannot have this parent_id: {reason}."""

    advice = "Choose another parent."


class OrgExists(MoleculeError):
    """an organisation named {name!r} already exists."""

    advice = "Choose another name."


class UrlRequired(MoleculeError):
    """url is required for push-mode workspaces."""

    advice = "Send url, or set delivery_mode to poll."


class WorkspaceRemoved(WireTextError):
    """workspace removed"""

    advice = "Stop the agent of this workspace, or ask the operator for a new workspace."

    @property
    def extras(self) -> dict[str, Any]:
        return {"id": self.details["id"], "removed_at": self.details["removed_at"], "hint": self.hint}


class ConfirmationRequired(MoleculeError):
    """{verb} {name!r} also removes the {children_count} workspaces below it. A name in the query must be its own."""

    advice = "Repeat the request with ?confirm=true to confirm."

    @property
    def extras(self) -> dict[str, Any]:
        members = {name: value for name, value in self.details.items() if name != "verb"}
        return {"status": "confirmation_required", **members}


class StatusConflict(ReasonError):
    """{name!r} is {status}: {reason}"""


class TooManyTokens(MoleculeError):
    """the limit of {limit} active tokens is reached."""

    advice = "Revoke a token that is no longer used."


class LastOwner(MoleculeError):
    """{name!r} is the last owner of the organisation."""

    advice = "Make another person an owner first."


# -- messages ----------------------------------------------------------------------------------------------------------


class InvalidMessage(ReasonError):
    """{reason}"""


class UnknownMethod(MoleculeError):
    """this path does not accept the method {method!r}."""

    advice = "Use one of: {known}."


class MessageIdReused(MoleculeError):
    """the messageId {message_id!r} was already used for another message."""

    advice = "Use a new messageId for new content."


class InboxFull(MoleculeError):
    """the inbox of this workspace has reached the limit of {limit} unacknowledged messages."""

    advice = "Send the message again when its agent has caught up."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 30}


class ChainFrozen(MoleculeError):
    """this chain of messages reached a limit ({reason}) and waits for a person to release or end it."""

    advice = (
        "Send no more messages in this chain (its root is {root_id}); the next message of a person starts a new chain."
    )

    @property
    def extras(self) -> dict[str, Any]:
        return {**self.details, "retry_after": 60}


class ChainEnded(MoleculeError):
    """a person has ended this chain of messages, and it accepts no more messages."""

    advice = (
        "Send no more messages in this chain (its root is {root_id}); the next message of a person starts a new chain."
    )

    @property
    def extras(self) -> dict[str, Any]:
        return self.details


class ChainNotFrozen(MoleculeError):
    """this chain cannot be released or ended: it is {state}, not frozen."""

    advice = "Read the chain for its current state."


class BroadcastDisabled(WireTextError):
    """broadcast_disabled"""

    advice = "Ask the operator to set broadcast_enabled, so that this workspace can write to all others."

    @property
    def extras(self) -> dict[str, Any]:
        return {"hint": self.hint}


class BroadcastTooWide(MoleculeError):
    """this broadcast would reach {count} workspaces; the limit is {limit}."""

    advice = "Send to fewer recipients."


class TalkToUserDisabled(WireTextError):
    """talk_to_user_disabled"""

    advice = "Ask an owner to set talk_to_user_enabled, so that this workspace can write to the user."

    @property
    def extras(self) -> dict[str, Any]:
        return {"hint": self.hint}


class CursorNotFound(MoleculeError):
    """{name} cursor not found: it was pruned, never issued, or you have no access to it."""

    advice = "Omit {name} to reset."


class AttemptRequired(MoleculeError):
    """an ack of a claimed message must name its attempt."""

    advice = "Send attempt with the number from the claim."


class StaleAttempt(MoleculeError):
    """this ack is for attempt {attempt}, but the message was delivered again as attempt {current}."""

    advice = "Acknowledge attempt {current} instead."


class NotADeadLetter(MoleculeError):
    """this message is no longer a dead letter: it was {state}."""

    advice = "Read its ticks for its current state."


class DeliveryRejected(MoleculeError):
    """the agent did not accept this message ({reason}): {detail}."""

    advice = "Ask an operator to requeue the message; it is now a dead letter."


class UnknownHandle(MoleculeError):
    """reply handle not found, or it belongs to no message of this workspace."""

    advice = "Copy the handle exactly from the instructions of the message that you answer."


class StaleHandle(MoleculeError):
    """the message of this reply handle is already {state}."""

    advice = "{advice}"

    @property
    def extras(self) -> dict[str, Any]:
        return {"handle": self.details["handle"]} if self.details["handle"] else {}


class AmbiguousReply(MoleculeError):
    """{count} messages of this workspace wait for an answer, and this message does not name the one that it answers."""

    advice = (
        "Send it again with reply_handle or in_reply_to of one of them: {choices}. To send a message that answers none "
        "of them, set intent to request."
    )

    @property
    def extras(self) -> dict[str, Any]:
        return {"open": self.details["open"]}


class HandleMismatch(MoleculeError):
    """this reply handle answers {whom}, not the recipient of this message."""

    advice = "Send to {whom}, or omit the handle."


class NoPendingDraft(MoleculeError):
    """this message has no pending draft: it is {state}."""

    advice = "Read the obligation for its current state."


class DecisionRequired(MoleculeError):
    """this message requires a decision, not a text."""

    advice = (
        "Call decide_approval with approval_id {approval_id} and the decision approve, deny, escalate or more_info."
    )

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval_id": self.details["approval_id"]}


# -- requests that the server makes ------------------------------------------------------------------------------------


class UnsafeUrl(MoleculeError):
    """the server cannot use this url: {reason}."""

    advice = "{advice}"


class FetchFailed(MoleculeError):
    """the remote server could not be reached or sent no usable response: {reason}."""

    advice = "Check the url and the log of the remote server, then try again."


# -- files -------------------------------------------------------------------------------------------------------------


class InvalidUpload(MoleculeError):
    """the server cannot read this upload: {reason}."""

    advice = "Send files as multipart/form-data, each in a field named 'files'."


class FileTooLarge(MoleculeError):
    """this file is larger than the limit of {limit} bytes."""

    advice = "Send it in smaller parts, or send a link to it."


class DiskFull(MoleculeError):
    """the disk of the server has no space left for files; no file of this upload was stored."""

    advice = "Contact the operator, then try again."


class FilesUnavailable(MoleculeError):
    """the file storage of the server does not work; no file of this upload was stored."""

    advice = "Contact the operator, then try again."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 30}


class PreviewUnavailable(MoleculeError):
    """this file has no preview: only PNG, JPEG, GIF and WebP images have one."""

    advice = "Download the file instead."


# -- memory ------------------------------------------------------------------------------------------------------------


class ScopeForbidden(MoleculeError):
    """only workspaces at the top of the organisation can write GLOBAL memories."""

    advice = "Use the scope TEAM, or ask one of those workspaces."


class MemoryNotOwned(MoleculeError):
    """this memory belongs to another workspace; only that workspace or an owner of the organisation can delete it."""

    advice = "Ask that workspace, or an owner."

    @property
    def extras(self) -> dict[str, Any]:
        return {"workspace_id": self.details["workspace_id"]}


class MemoryQuotaExceeded(MoleculeError):
    """this workspace has reached the limit of {limit} {what}."""

    advice = "Delete some that are no longer needed."


class VersionMismatch(MoleculeError):
    """the key has version {current_version}, not {expected_version} (0: it does not exist)."""

    advice = "Read the key again, then retry."

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


# -- prompts -----------------------------------------------------------------------------------------------------------


class SharedFilesForbidden(MoleculeError):
    """only the direct children of this workspace, people and the workspace itself can read its shared files."""

    advice = "Ask your own parent for the files that it shares."


class PromptNotReported(MoleculeError):
    """the agent of this workspace has not reported its system prompt yet."""

    advice = "Run `molecule prompt show --report` or `molecule prompt watch` on the machine of the agent."


# -- instruction templates ---------------------------------------------------------------------------------------------


class InvalidTemplate(ReasonError):
    """this template is invalid: {part}, line {line}: {reason}"""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class AmbiguousTemplate(MoleculeError):
    """the request must have exactly one of template_id and inline_template."""

    advice = "Send one of them."


class TemplateInUse(MoleculeError):
    """the template {template_id!r} cannot be deleted, because it is used by: {users}."""

    advice = "Assign another template to them first."

    @property
    def extras(self) -> dict[str, Any]:
        return {"users": self.details["users"]}


class TooManyTemplates(MoleculeError):
    """the limit of {limit} {what} is reached."""

    advice = "Delete some that are no longer used."


# -- server and store --------------------------------------------------------------------------------------------------


class RateLimited(WireTextError):
    """rate limit exceeded"""

    advice = "Wait {retry_after} seconds, then try again."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": self.details["retry_after"]}


class CapacityExceeded(MoleculeError):
    """the limit of {most} {what} is reached."""

    advice = "End one, then try again."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}  # the caller decides when one ends; 0 would make it poll


class ServerBusy(MoleculeError):
    """the server has too many queued writes."""

    advice = "Try again shortly."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 1}


class StoreUnavailable(MoleculeError):
    """the store of the server does not respond."""

    advice = "Try again shortly with the same messageId, so that the request takes effect only once."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}


class InternalError(MoleculeError):
    """an internal error occurred, and the server logged it under {reference}. Nothing was changed."""

    advice = "Try again, or contact the operator with this reference."


class StoreWriteFailed(MoleculeError):
    """the store of the server cannot be written."""

    advice = "Read the log of the server, or run `molecule doctor` on its machine."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}


class StateInUse(MoleculeError):
    """another Molecule server already writes to {place}."""

    advice = "Stop it first, or choose another --state-dir."


class StoreDamaged(MoleculeError):
    """the store {place} cannot be opened ({reason})."""

    advice = "Restore a backup with `molecule restore COPY`."


class SchemaTooNew(MoleculeError):
    """the store was written by a newer Molecule (schema {found}; this version supports up to {known})."""

    advice = "Install that version."


class BadSettings(ReasonError):
    """invalid setting: {reason}"""


class StartFailed(ReasonError):
    """the server cannot start: {reason}"""


# -- commands ----------------------------------------------------------------------------------------------------------


class CommandFailed(ReasonError):
    """the command failed: {reason}"""


class BackupFailed(ReasonError):
    """the command failed: {reason}"""


class LoginLinkFailed(ReasonError):
    """cannot create a login link: {reason}"""


class PruneFailed(MoleculeError):
    """{url} cannot prune: {reason}."""

    advice = "Name the --port of a running server and the --state-dir that holds its token."
