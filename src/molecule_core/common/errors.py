"""What every refusal is made of."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Small commands load this module, and have no use for a loop.
    import asyncio


class MoleculeError(Exception):
    """Something went wrong that has no better name."""

    def __init__(self, **details: Any) -> None:
        self.details = details
        super().__init__(" ".join((type(self).__doc__ or "").split()).format(**details))

    @property
    def text(self) -> str:
        """The sentence for people."""
        return str(self)

    @property
    def extras(self) -> dict[str, Any]:
        """Members that travel beside the sentence; existing clients read some by name."""
        return {}


def reject_future(future: "asyncio.Future[Any]", error: BaseException) -> None:
    """Tells who waits for it what went wrong. It may be gone, and a refusal that nobody looks at is no mistake of ours,
    as which an error would be logged."""
    future.set_exception(error)
    if isinstance(error, MoleculeError):
        future.exception()


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


class BodyTimeout(MoleculeError):
    """the body did not arrive within {seconds} seconds. Send it again on a better connection."""


class HeadersTooLarge(MoleculeError):
    """the request's headers are larger than {limit} bytes. Send fewer or shorter headers."""


class HeadersTimeout(MoleculeError):
    """the request's headers did not arrive within {seconds} seconds. Send them again in one piece."""


class BadHttp(MoleculeError):
    """this is not valid HTTP/1.1. Send one request as the standard has it."""


class HostNotAllowed(MoleculeError):
    """this server does not answer for the host name {host!r}. Use its own address, or let the operator add that name
    with --allowed-host."""


class NotFound(MoleculeError):
    """{what} not found: there is none, or you may not see it. Check what you named it by, or list what you see."""


class RouteNotFound(MoleculeError):
    """no such path. GET /openapi.json lists what this server offers."""


class MethodNotAllowed(MoleculeError):
    """this path takes {allowed}, not {method}."""


class WebSocketRequired(MoleculeError):
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


class InsufficientRole(MoleculeError):
    """your role {role!r} may not do this; it takes {needed!r}. Ask an owner of the organisation."""


class InvalidCaller(MoleculeError):
    """invalid caller ID: the header X-Workspace-ID must name the workspace of the token, or be left out"""


class CommunicationDenied(MoleculeError):
    """access denied: workspaces cannot communicate per hierarchy rules (parent, children and siblings can)"""


# -- organisation ------------------------------------------------------------------------------------------------------


class InvalidName(MoleculeError):
    """invalid name: {reason}"""


class InvalidParent(MoleculeError):
    """invalid parent_id: {reason}"""


class OrgExists(MoleculeError):
    """an organisation named {name!r} exists already. Choose another name."""


class UrlRequired(MoleculeError):
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
        members = {name: value for name, value in self.details.items() if name != "verb"}
        return {"status": "confirmation_required", **members}


class StatusConflict(MoleculeError):
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


class CursorNotFound(MoleculeError):
    """{name} cursor not found (pruned, foreign or never issued); omit {name} to reset"""


class StaleAttempt(MoleculeError):
    """this ack is for attempt {attempt}, but the message was handed out again as attempt {current}. Handle that one."""


class NotADeadLetter(MoleculeError):
    """this message is no dead letter any more: it was {state}. GET its ticks to see where it is."""


class DeliveryRejected(MoleculeError):
    """the agent did not take this message ({reason}): {detail}. It is a dead letter; an operator can requeue it."""


class UnknownHandle(MoleculeError):
    """reply handle not found: this workspace has no message that it names. Copy it from the instructions of the message
    that you answer, as it stands there."""


class StaleHandle(MoleculeError):
    """the message of this reply handle is {state} already. {advice}"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"handle": self.details["handle"]} if self.details["handle"] else {}


class HandleMismatch(MoleculeError):
    """this reply handle answers {whom}, not whom you write to. Send it there, or leave the handle out."""


class NoPendingDraft(MoleculeError):
    """there is no draft that waits: this message is {state}"""


class AttemptRequired(MoleculeError):
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


class DiskFull(MoleculeError):
    """there is no room for files on the server's disk; nothing of this upload was kept. Tell the operator, then try
    again."""


class FilesUnavailable(MoleculeError):
    """the server's folder of files does not work; nothing of this upload was kept. Tell the operator, then try
    again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 30}


class PreviewUnavailable(MoleculeError):
    """this file has no preview: only PNG, JPEG, GIF and WebP pictures have one. Download it."""


# -- memory ------------------------------------------------------------------------------------------------------------


class ScopeForbidden(MoleculeError):
    """GLOBAL memories are written by workspaces at the top of the organisation. Use the scope TEAM, or ask one of
    them."""


class MemoryNotOwned(MoleculeError):
    """this memory was written by another workspace, and only that one or an owner of the organisation can forget it"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"workspace_id": self.details["workspace_id"]}


class MemoryQuotaExceeded(MoleculeError):
    """this workspace has {limit} {what} already. Forget some that are not needed any more."""


class VersionMismatch(MoleculeError):
    """the key has version {current_version}, not {expected_version} (0: it is not there). Read it again, then decide
    anew."""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class RateLimited(MoleculeError):
    """rate limit exceeded"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": self.details["retry_after"]}


class CapacityExceeded(MoleculeError):
    """so many {what} are in use that no more are taken (at most {most}). End one, then try again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}  # it is up to the caller how soon one ends; not at once, or it would only ask


class ServerBusy(MoleculeError):
    """too much is waiting to be written; try again shortly"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 1}


class StoreUnavailable(MoleculeError):
    """the store does not answer; try again shortly, with the same messageId, so that nothing is done twice"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}


class InternalError(MoleculeError):
    """the server made a mistake; it is in its log under {reference}. Nothing was changed."""


class StateInUse(MoleculeError):
    """another Molecule server already writes to {place}. Stop it first, or choose another --state-dir."""


class StoreDamaged(MoleculeError):
    """the store {place} cannot be opened ({reason}). Put a backup back: molecule restore COPY"""


class SchemaTooNew(MoleculeError):
    """the store was written by a newer Molecule (schema {found}, this one knows {known}). Install that version."""


class BackupFailed(MoleculeError):
    """that did not work: {reason}"""


class CommandFailed(MoleculeError):
    """that did not work: {reason}"""


class PruneFailed(MoleculeError):
    """{url} did not prune: {reason}. Name the --port of a running server and the --state-dir that holds its token."""


class LoginLinkFailed(MoleculeError):
    """no login link: {reason}"""


class ChainsFailed(MoleculeError):
    """that did not work: {reason}"""


class MemoryFailed(MoleculeError):
    """that did not work: {reason}"""


class OrgFileFailed(MoleculeError):
    """that did not work: {reason}"""


class BadSettings(MoleculeError):
    """invalid setting: {reason}"""


class InvalidTemplate(MoleculeError):
    """this template is refused: {part}, line {line}: {reason}"""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class AmbiguousTemplate(MoleculeError):
    """send exactly one of template_id and inline_template"""


class TemplateInUse(MoleculeError):
    """the template {template_id!r} is still used by: {users}. Give them another one first."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"users": self.details["users"]}


class TooManyTemplates(MoleculeError):
    """there are {limit} {what} already. Delete some that are not used any more."""


class SelfDelegation(MoleculeError):
    """a workspace cannot delegate to itself. Do the work here, or choose one of your peers."""


class _LimitDetails:
    """A guard of delegations refused: which limit, how much of it is in use, what to do instead."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {name: self.details[name] for name in ("limit", "use", "most", "remedy")}


class DelegationLimit(_LimitDetails, MoleculeError):
    """this delegation is refused: {what} ({use} of {most}). {remedy}"""


class DelegationCycle(_LimitDetails, MoleculeError):
    """this delegation is refused: {what} ({use} of {most}). {remedy} The same task would go round for ever."""


class DelegationNotEnded(MoleculeError):
    """this delegation has not ended: it is {status}. Wait for its end, or cancel it; then it can be begun again."""


class DecisionRequired(MoleculeError):
    """this message asks for a decision, and no text is one: call decide_approval with approval_id {approval_id} and
    approve, deny, escalate or more_info."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval_id": self.details["approval_id"]}


class _ApprovalDetails:
    """A refusal that shows the approval as it stands."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"]}


class SelfApproval(MoleculeError):
    """a workspace decides nothing that it has asked for itself. Wait for the decision, or withdraw the request."""


class AlreadyDecided(_ApprovalDetails, MoleculeError):
    """this approval was decided before: {decided}. The first decision holds; the approval says whose it is."""


class ApprovalReassigned(_ApprovalDetails, MoleculeError):
    """this approval is not yours to decide any more: {what}. There is nothing left to do about it."""


class ApprovalChanged(_ApprovalDetails, MoleculeError):
    """what was shown is not what stands there now (revision {revision}, action_hash {action_hash}). Read it again."""


class ApprovalEnded(_ApprovalDetails, MoleculeError):
    """this approval has ended ({status}): nothing can be added to it or taken back. Ask anew if it is still needed."""


class NoPendingQuestion(_ApprovalDetails, MoleculeError):
    """nobody waits for an answer about this approval: {what}."""


class NoHigherApprover(_ApprovalDetails, MoleculeError):
    """this approval cannot be passed on: it waits for a person already. Approve it, deny it, or ask for more."""


class TooManyQuestions(_ApprovalDetails, MoleculeError):
    """so many questions about one approval are enough ({limit}). Approve it, deny it, or pass it on."""


class ApprovalUsed(_ApprovalDetails, MoleculeError):
    """this approval was used before, at {used_at}; each is good for one action. Ask anew for another one."""


class NotApproved(_ApprovalDetails, MoleculeError):
    """this approval allows nothing: {why}."""


class ApprovalRequired(_ApprovalDetails, MoleculeError):
    """{action} needs an approval, by a rule of this workspace. {how}"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"], "header": "X-Molecule-Approval"}


class TooManyApprovals(MoleculeError):
    """this workspace has {limit} approvals open already. Wait for decisions, or withdraw what is not needed."""


class NotTheAssignee(MoleculeError):
    """only the workspace that has the task may say this. Who gave it can cancel it, or update what it recorded."""


# -- prompts -----------------------------------------------------------------------------------------------------------


class SharedFilesForbidden(MoleculeError):
    """what a workspace shares is read by its direct children, by people and by itself. Ask your own parent for what it
    shares."""


class PromptNotReported(MoleculeError):
    """the agent of this workspace has not told its system prompt yet. Run `molecule prompt show --report` or
    `molecule prompt watch` where it runs."""


# -- threads -----------------------------------------------------------------------------------------------------------


class BaseInstructionsRequired(MoleculeError):
    """a thread needs base instructions, and the agent of this workspace has not told its system prompt yet. Send
    base_instructions, or let the agent tell its prompt first."""


class ThreadLeased(MoleculeError):
    """this thread is held by the engine {owner!r} until {until}. Wait until it lets go, or is not heard of any more."""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class StaleGeneration(MoleculeError):
    """generation {given} does not hold this thread any more: it is {generation}. Nothing was written. Claim it anew."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"generation": self.details["generation"]}


class ThreadClosedError(MoleculeError):
    """this thread is closed. Resume it first."""


class ThreadBusy(MoleculeError):
    """a turn of this thread runs ({turn_id}): {what} Interrupt it, or wait for its end."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class NoRunningTurn(MoleculeError):
    """no turn of this thread runs that could be steered. Send it with mode auto or queue."""


class TurnMismatch(MoleculeError):
    """the turn that runs is {turn_id}, not {expected}. Read the thread again, then decide anew."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class TurnNotOpen(MoleculeError):
    """this turn cannot be begun or ended: it is {status}."""


class ThreadLimit(_LimitDetails, MoleculeError):
    """this is refused: {what} ({use} of {most}, {limit}). {remedy}"""


class InvalidTask(MoleculeError):
    """this agent cannot be spawned: {reason}."""


class AgentNotFound(MoleculeError):
    """there is no agent {target!r} that this thread may reach. list_agents names those of its tree."""


class RootNotWakeable(MoleculeError):
    """those below a root do not wake it, unless its permissions say so (root_followups). Use send_message."""


class WaitTargetGone(MoleculeError):
    """the agent {target!r} is not there to be waited for: {outcome}. Nothing is known of its end."""
