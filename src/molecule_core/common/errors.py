"""Every error that the package raises for a caller. A class's docstring is the text that people and models read.

The codes and HTTP statuses are in one table, `api/errors.py`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Small commands load this module and must not pay for importing asyncio.
    import asyncio


class MoleculeError(Exception):
    """an unexpected error occurred."""

    def __init__(self, **details: Any) -> None:
        self.details = details
        super().__init__(" ".join((type(self).__doc__ or "").split()).format(**details))

    @property
    def text(self) -> str:
        """Return the sentence for people."""
        return str(self)

    @property
    def extras(self) -> dict[str, Any]:
        """Return the members that are sent beside the sentence; existing clients read some by name."""
        return {}


def reject_future(future: "asyncio.Future[Any]", error: BaseException) -> None:
    """Set an error on a future. A MoleculeError is marked as retrieved.

    The waiter may be gone, and asyncio would log an unretrieved rejection as an error."""
    future.set_exception(error)
    if isinstance(error, MoleculeError):
        future.exception()


# -- requests ----------------------------------------------------------------------------------------------------------


class InvalidJson(MoleculeError):
    """the body is not valid JSON: {reason}. Send one JSON value in UTF-8."""


class JsonTooDeep(MoleculeError):
    """the body nests deeper than {limit} levels. Flatten it."""


class BodyTooLarge(MoleculeError):
    """the body is larger than {limit} bytes. Send less, or send a file as an attachment."""


class BodyTimeout(MoleculeError):
    """the body did not arrive within {seconds} seconds. Send it again on a better connection."""


class HeadersTooLarge(MoleculeError):
    """the request's headers are larger than {limit} bytes. Send fewer or shorter headers."""


class HeadersTimeout(MoleculeError):
    """the request's headers did not arrive within {seconds} seconds. Send them again in one piece."""


class BadHttp(MoleculeError):
    """this is not valid HTTP/1.1. Send one request that follows the standard."""


class HostNotAllowed(MoleculeError):
    """this server does not answer for the host name {host!r}. Use its own address, or let the operator add the name
    with --allowed-host."""


class NotFound(MoleculeError):
    """{what} not found, or you have no access to it. Check the id, or list the ones you can access."""


class RouteNotFound(MoleculeError):
    """no such path. GET /openapi.json lists the paths of this server."""


class MethodNotAllowed(MoleculeError):
    """this path accepts {allowed}, not {method}."""


class WebSocketRequired(MoleculeError):
    """this path requires WebSocket (version 13). Connect with a WebSocket client, or read GET /events/stream."""


class InvalidField(MoleculeError):
    """invalid request: {reason}"""


# -- authentication and access -----------------------------------------------------------------------------------------


class MissingCredential(MoleculeError):
    """missing workspace auth token: send the header 'Authorization: Bearer <token>'"""


class InvalidCredential(MoleculeError):
    """invalid workspace auth token: it is mistyped, expired or revoked; ask the operator for a new one"""


class InvalidLogin(MoleculeError):
    """this login link was already used or has expired. Ask for a new one: molecule login-link"""


class CrossOrigin(MoleculeError):
    """this request comes from a page of another origin. Open the server's own address, or use a token."""


class CredentialNotAccepted(MoleculeError):
    """this path does not accept a {kind} credential; it accepts: {takes}"""


class InsufficientRole(MoleculeError):
    """your role {role!r} does not allow this; it requires {needed!r}. Ask an owner of the organisation."""


class InvalidCaller(MoleculeError):
    """invalid caller ID: the header X-Workspace-ID must name the workspace of the token, or be left out"""


class CommunicationDenied(MoleculeError):
    """access denied: workspaces cannot communicate per hierarchy rules (parent, children and siblings can)"""


# -- organisations and workspaces --------------------------------------------------------------------------------------


class InvalidName(MoleculeError):
    """invalid name: {reason}"""


class InvalidParent(MoleculeError):
    """invalid parent_id: {reason}"""


class OrgExists(MoleculeError):
    """an organisation named {name!r} already exists. Choose another name."""


class UrlRequired(MoleculeError):
    """url is required for push-mode workspaces"""


class WorkspaceRemoved(MoleculeError):
    """workspace removed"""

    @property
    def extras(self) -> dict[str, Any]:
        hint = "this workspace was removed by its operator; stop its agent, or ask for a new workspace"
        return {"id": self.details["id"], "removed_at": self.details["removed_at"], "hint": hint}


class ConfirmationRequired(MoleculeError):
    """{verb} {name!r} also removes the {children_count} workspaces below it: repeat with ?confirm=true. The name, if
    given, must be its own."""

    @property
    def extras(self) -> dict[str, Any]:
        members = {name: value for name, value in self.details.items() if name != "verb"}
        return {"status": "confirmation_required", **members}


class StatusConflict(MoleculeError):
    """{name!r} is {status}: {reason}"""


class TooManyTokens(MoleculeError):
    """the limit of {limit} active tokens is reached. Revoke one that is no longer used."""


class LastOwner(MoleculeError):
    """{name!r} is the last owner of the organisation. Make another person an owner first."""


# -- messages ----------------------------------------------------------------------------------------------------------


class InvalidMessage(MoleculeError):
    """invalid message: {reason}"""


class UnknownMethod(MoleculeError):
    """unknown method {method!r}; this path accepts: {known}"""


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
    """this chain of messages reached a limit ({reason}) and waits for a person to release or end it. Send no more
    messages in it (its root is {root_id}); the next message of a person starts a new chain."""

    @property
    def extras(self) -> dict[str, Any]:
        return {**self.details, "retry_after": 60}


class ChainEnded(MoleculeError):
    """a person has ended this chain of messages. It accepts no more messages (its root is {root_id}); the next message
    of a person starts a new chain."""

    @property
    def extras(self) -> dict[str, Any]:
        return self.details


class ChainNotFrozen(MoleculeError):
    """this chain is {state}, not frozen. There is nothing to decide."""


class BroadcastDisabled(MoleculeError):
    """broadcast_disabled"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"hint": "this workspace may not write to all others; the operator can switch broadcast_enabled on"}


class BroadcastTooWide(MoleculeError):
    """this broadcast would reach {count} workspaces; the limit is {limit}. Send to fewer recipients."""


class TalkToUserDisabled(MoleculeError):
    """talk_to_user_disabled"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"hint": "this workspace may not write to the user; an owner can switch talk_to_user_enabled on"}


class CursorNotFound(MoleculeError):
    """{name} cursor not found (pruned, foreign or never issued); omit {name} to reset"""


class AttemptRequired(MoleculeError):
    """this message was delivered by a claim: the ack must name its attempt"""


class StaleAttempt(MoleculeError):
    """this ack is for attempt {attempt}, but the message was delivered again as attempt {current}. Handle and
    acknowledge that one."""


class NotADeadLetter(MoleculeError):
    """this message is no longer a dead letter: it was {state}. GET its ticks for its current state."""


class DeliveryRejected(MoleculeError):
    """the agent did not accept this message ({reason}): {detail}. It is a dead letter; an operator can requeue it."""


class UnknownHandle(MoleculeError):
    """reply handle not found: it names no message of this workspace. Copy it exactly from the instructions of the
    message that you answer."""


class StaleHandle(MoleculeError):
    """the message of this reply handle is already {state}. {advice}"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"handle": self.details["handle"]} if self.details["handle"] else {}


class HandleMismatch(MoleculeError):
    """this reply handle answers {whom}, not the recipient of this message. Send to {whom}, or omit the handle."""


class NoPendingDraft(MoleculeError):
    """this message has no pending draft: it is {state}"""


# -- requests that the server makes ------------------------------------------------------------------------------------


class UnsafeUrl(MoleculeError):
    """this url cannot be used: {reason}"""


class FetchFailed(MoleculeError):
    """the remote server could not be reached, or sent no usable response: {reason}"""


# -- files -------------------------------------------------------------------------------------------------------------


class InvalidUpload(MoleculeError):
    """this upload cannot be read: {reason}. Send files as multipart/form-data, each in a field named 'files'."""


class FileTooLarge(MoleculeError):
    """this file is larger than {limit} bytes. Send it in smaller parts, or send a link to it."""


class DiskFull(MoleculeError):
    """the server's disk has no space left for files; nothing of this upload was stored. Contact the operator, then try
    again."""


class FilesUnavailable(MoleculeError):
    """the server's file storage does not work; nothing of this upload was stored. Contact the operator, then try
    again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 30}


class PreviewUnavailable(MoleculeError):
    """this file has no preview: only PNG, JPEG, GIF and WebP images have one. Download it."""


# -- memory ------------------------------------------------------------------------------------------------------------


class ScopeForbidden(MoleculeError):
    """only workspaces at the top of the organisation can write GLOBAL memories. Use the scope TEAM, or ask one of
    them."""


class MemoryNotOwned(MoleculeError):
    """this memory belongs to another workspace; only that workspace or an owner of the organisation can delete it"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"workspace_id": self.details["workspace_id"]}


class MemoryQuotaExceeded(MoleculeError):
    """this workspace has reached the limit of {limit} {what}. Delete some that are no longer needed."""


class VersionMismatch(MoleculeError):
    """the key has version {current_version}, not {expected_version} (0: it does not exist). Read it again, then
    retry."""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


# -- prompts -----------------------------------------------------------------------------------------------------------


class SharedFilesForbidden(MoleculeError):
    """shared files can be read only by the workspace's direct children, by people and by itself. Ask your own parent
    for the files that it shares."""


class PromptNotReported(MoleculeError):
    """the agent of this workspace has not reported its system prompt yet. Run `molecule prompt show --report` or
    `molecule prompt watch` where it runs."""


# -- instruction templates ---------------------------------------------------------------------------------------------


class InvalidTemplate(MoleculeError):
    """this template is invalid: {part}, line {line}: {reason}"""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class AmbiguousTemplate(MoleculeError):
    """send exactly one of template_id and inline_template"""


class TemplateInUse(MoleculeError):
    """the template {template_id!r} is still used by: {users}. Assign them another one first."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"users": self.details["users"]}


class TooManyTemplates(MoleculeError):
    """the limit of {limit} {what} is reached. Delete some that are no longer used."""


# -- delegations -------------------------------------------------------------------------------------------------------


class _LimitDetails:
    """Adds the limit, its use and the remedy to the response of an error about a limit."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {name: self.details[name] for name in ("limit", "use", "most", "remedy")}


class SelfDelegation(MoleculeError):
    """a workspace cannot delegate to itself. Do the task here, or choose one of your peers."""


class DelegationLimit(_LimitDetails, MoleculeError):
    """this delegation is rejected: {what} ({use} of {most}). {remedy}"""


class DelegationCycle(_LimitDetails, MoleculeError):
    """this delegation is rejected: {what} ({use} of {most}). {remedy} The same task would repeat without end."""


class DelegationNotEnded(MoleculeError):
    """this delegation has not ended: it is {status}. Wait for its end or cancel it; then it can be started again."""


class NotTheAssignee(MoleculeError):
    """only the workspace that has the task can report this. The delegator can cancel it, or update what it recorded."""


# -- approvals ---------------------------------------------------------------------------------------------------------


class _ApprovalDetails:
    """Adds the current state of the approval to the response of an error."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"]}


class DecisionRequired(MoleculeError):
    """this message requires a decision, not a text: call decide_approval with approval_id {approval_id} and approve,
    deny, escalate or more_info."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval_id": self.details["approval_id"]}


class SelfApproval(MoleculeError):
    """a workspace cannot decide its own approval request. Wait for the decision, or withdraw the request."""


class AlreadyDecided(_ApprovalDetails, MoleculeError):
    """this approval is already decided: {decided}. The first decision is final; the approval names who made it."""


class ApprovalReassigned(_ApprovalDetails, MoleculeError):
    """this approval does not wait for your decision: {what}."""


class ApprovalChanged(_ApprovalDetails, MoleculeError):
    """the approval has changed since you read it (now revision {revision}, action_hash {action_hash}). Read it again,
    then decide."""


class ApprovalEnded(_ApprovalDetails, MoleculeError):
    """this approval has ended ({status}) and cannot be changed. Request a new one if it is still needed."""


class NoPendingQuestion(_ApprovalDetails, MoleculeError):
    """this approval has no open question: {what}."""


class NoHigherApprover(_ApprovalDetails, MoleculeError):
    """this approval cannot be escalated: it already waits for a person. Approve it, deny it, or ask for more
    information."""


class TooManyQuestions(_ApprovalDetails, MoleculeError):
    """the limit of {limit} questions per approval is reached. Approve it, deny it, or escalate it."""


class ApprovalUsed(_ApprovalDetails, MoleculeError):
    """this approval was already used at {used_at}; an approval is valid for one action. Request a new one."""


class NotApproved(_ApprovalDetails, MoleculeError):
    """this approval does not allow the action: {why}."""


class ApprovalRequired(_ApprovalDetails, MoleculeError):
    """{action} requires an approval, by a rule of this workspace. {how}"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"], "header": "X-Molecule-Approval"}


class TooManyApprovals(MoleculeError):
    """this workspace has reached the limit of {limit} open approvals. Wait for decisions, or withdraw requests that are
    not needed."""


# -- threads -----------------------------------------------------------------------------------------------------------


class BaseInstructionsRequired(MoleculeError):
    """a thread needs base instructions, and the agent of this workspace has not reported its system prompt yet. Send
    base_instructions, or let the agent report its prompt first."""


class ThreadLeased(MoleculeError):
    """the engine {owner!r} holds this thread until {until}. Wait until it releases the thread or its lease expires."""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class StaleGeneration(MoleculeError):
    """generation {given} no longer holds this thread: the current one is {generation}. Nothing was written. Claim the
    thread again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"generation": self.details["generation"]}


class ThreadClosedError(MoleculeError):
    """this thread is closed. Resume it first."""


class ThreadBusy(MoleculeError):
    """a turn of this thread is running ({turn_id}): {what} Interrupt it, or wait for its end."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class NoRunningTurn(MoleculeError):
    """this thread has no running turn to steer. Send the input with mode auto or queue."""


class TurnMismatch(MoleculeError):
    """the running turn is {turn_id}, not {expected}. Read the thread again, then retry."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class TurnNotOpen(MoleculeError):
    """this turn cannot be started or ended: it is {status}."""


class ThreadLimit(_LimitDetails, MoleculeError):
    """this request is rejected: {what} ({use} of {most}, {limit}). {remedy}"""


class InvalidTask(MoleculeError):
    """this agent cannot be spawned: {reason}."""


class AgentNotFound(MoleculeError):
    """agent {target!r} not found, or this thread cannot reach it. list_agents lists the agents of its tree."""


class RootNotWakeable(MoleculeError):
    """agents below a root cannot wake it unless its permissions allow it (root_followups). Use send_message."""


class WaitTargetGone(MoleculeError):
    """the agent {target!r} cannot be waited for: {outcome}. Its result is unknown."""


# -- server and store --------------------------------------------------------------------------------------------------


class RateLimited(MoleculeError):
    """rate limit exceeded"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": self.details["retry_after"]}


class CapacityExceeded(MoleculeError):
    """the limit of {most} {what} is reached. End one, then try again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}  # the caller decides when one ends; 0 would make it poll


class ServerBusy(MoleculeError):
    """too many writes are queued; try again shortly"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 1}


class StoreUnavailable(MoleculeError):
    """the store does not respond; try again shortly with the same messageId, so that nothing is done twice"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}


class InternalError(MoleculeError):
    """an internal error occurred; the server's log has it under {reference}. Nothing was changed."""


class StateInUse(MoleculeError):
    """another Molecule server already writes to {place}. Stop it first, or choose another --state-dir."""


class StoreDamaged(MoleculeError):
    """the store {place} cannot be opened ({reason}). Restore a backup: molecule restore COPY"""


class SchemaTooNew(MoleculeError):
    """the store was written by a newer Molecule (schema {found}; this version supports up to {known}). Install that
    version."""


class BadSettings(MoleculeError):
    """invalid setting: {reason}"""


# -- commands ----------------------------------------------------------------------------------------------------------


class CommandFailed(MoleculeError):
    """the command failed: {reason}"""


class BackupFailed(MoleculeError):
    """the command failed: {reason}"""


class ChainsFailed(MoleculeError):
    """the command failed: {reason}"""


class LoginLinkFailed(MoleculeError):
    """cannot create a login link: {reason}"""


class MemoryFailed(MoleculeError):
    """the command failed: {reason}"""


class OrgFileFailed(MoleculeError):
    """the command failed: {reason}"""


class PruneFailed(MoleculeError):
    """{url} cannot prune: {reason}. Name the --port of a running server and the --state-dir that holds its token."""
