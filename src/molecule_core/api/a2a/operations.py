"""Operations of A2A on tasks, for both lines and bindings: send, get, list, cancel.

Called by `api/a2a/routes.py` with parsed requests; calls the writers of messages, delegations and approvals, and reads
tasks by `views/a2a_tasks.py`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec import Struct, structs

from molecule_core.access.model import CredentialKind
from molecule_core.api.a2a import cards
from molecule_core.api.a2a.cards import IDEMPOTENCY_EXTENSION
from molecule_core.api.a2a.reach import check_may_talk
from molecule_core.api.a2a.tool_approvals import read_decision
from molecule_core.api.delegations.a2a_delegation import A2ADelegation, message_key
from molecule_core.api.errors import error_mapping
from molecule_core.api.messages.send import MessageRoutes, draft_of, idempotency_key_of, sender_of
from molecule_core.api.query_parameters import read_int_param
from molecule_core.api.routing import Request
from molecule_core.approvals.model import DecisionInput, DecisionKind, DecisionRequest, PartyKind
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.common.clock import SECOND
from molecule_core.common.errors import InvalidMessage, MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MessageMeter
from molecule_core.common.text import is_valid_client_id, truncate_line
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.cancellation import MessageCanceller
from molecule_core.messages.files.inline_files import has_inline_files, store_inline_files
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.messages.model import MessageDraft
from molecule_core.messages.task_reader import CANCEL_MEMBER
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.views.a2a_tasks import APPROVAL_EXTENSION, A2ATaskReader, TaskFilter, TaskPage
from molecule_core.wire.protocols.a2a import DELEGATION_FLAG, is_delegation_request, parse_send
from molecule_core.wire.protocols.a2a_rpc import (
    CONTENT_TYPE_NOT_SUPPORTED,
    EXTENSION_REQUIRED,
    INVALID_PARAMS,
    OWN_DOMAIN,
    PUSH_NOT_SUPPORTED,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    A2AError,
    A2AErrorKind,
    Operation,
    bool_param,
    int_param,
    object_param,
    text_param,
)
from molecule_core.wire.protocols.a2a_shapes import (
    A2ALine,
    A2AState,
    A2ATask,
    TaskStatus,
    media_types_of,
    parse_v1_message,
)
from molecule_core.wire.schemas.activity import Intent
from molecule_core.wire.schemas.approvals import Party

_MAX_PAGE, _DEFAULT_PAGE = 100, 50
_MAX_HISTORY = 1 << 31
_DECISIONS = {each.value: each for each in DecisionKind}
_SESSION = "a2a"


class A2ACall(Struct, frozen=True):
    """One request of A2A.

    `extensions`: those that its headers name. `is_lenient`: it names no version, so older spellings are accepted."""

    request: Request
    line: A2ALine
    operation: Operation
    params: Mapping[str, Any]
    extensions: frozenset[str]
    rpc_id: str | int | float | None = None
    is_lenient: bool = False

    @property
    def workspace(self) -> Workspace:
        """Return the workspace that it is about."""
        return self.request.workspace

    @property
    def caller_key(self) -> str:
        """Return the key of its caller as a sender of messages."""
        return sender_of(self.request.caller).key


class PushConfigOperations(Protocol):
    """Operations on push notification configurations."""

    async def check(self, call: A2ACall, config: Mapping[str, Any]) -> None:
        """Check the configuration that a message brings, before its task exists. Raises A2AError, CapacityExceeded."""

    async def create(self, call: A2ACall, task: A2ATask, config: Mapping[str, Any]) -> dict[str, Any]:
        """Store a configuration of a task. Returns it as the line writes it, without secrets."""

    async def get(self, call: A2ACall, task: A2ATask, config_id: str) -> dict[str, Any]:
        """Return a configuration. Raises A2AError."""

    async def list_all(self, call: A2ACall, task: A2ATask) -> list[dict[str, Any]]:
        """Return all configurations of a task."""

    async def delete(self, call: A2ACall, task: A2ATask, config_id: str) -> None:
        """Delete a configuration, if there is one."""


class A2AOperations:
    """Operations on tasks. `push`: those on push notification configurations; None if they are not offered."""

    def __init__(  # noqa: PLR0913 (each is a service of its own)
        self,
        tasks: A2ATaskReader,
        org: OrgReader,
        *,
        message_routes: MessageRoutes,
        delegation: A2ADelegation,
        delegation_writer: DelegationWriter,
        canceller: MessageCanceller,
        approval_writer: ApprovalWriter,
        approval_reader: ApprovalReader,
        files: FileWriter,
        message_meter: MessageMeter,
        limits: Limits,
        push: PushConfigOperations | None = None,
    ) -> None:
        self.tasks = tasks
        self._org = org
        self._message_routes = message_routes
        self._delegation = delegation
        self._delegation_writer = delegation_writer
        self._canceller = canceller
        self._approval_writer = approval_writer
        self._approval_reader = approval_reader
        self._files = files
        self._message_meter = message_meter
        self._limits = limits
        self.push = push

    # -- sending -------------------------------------------------------------------------------------------------------

    async def send(self, call: A2ACall, *, waits: bool = True) -> A2ATask:
        """Send a message, and return its task: at the end of its turn, or as it is once the wait is over.

        `waits`: False for a stream, which follows the task itself."""
        draft = self._parse_draft(call)
        configuration = object_param(call.params, "configuration")
        self._check_message(call, draft)
        await self._check_push_config(call, configuration)
        wait_seconds = self._wait_seconds(call, configuration) if waits else 0
        if has_inline_files(draft.message["parts"]):
            owner_id = draft.sender.workspace_id or call.workspace.id
            parts = await store_inline_files(self._files, owner_id, draft.sender, draft.message["parts"])
            draft = structs.replace(draft, message={**draft.message, "parts": parts})
        task_id = text_param(draft.message, "taskId")
        if task_id is not None:
            task = await self._continue_task(call, draft, task_id)
        elif is_delegation_request(draft.message["metadata"], ",".join(call.extensions)):
            task = await self._delegate(call, draft, wait_seconds)
            wait_seconds = 0
        else:
            receipt = await self._message_routes.start_send(call.request, draft)
            task = await self._task_of(call, receipt.activity_id)
        self._message_meter.accepted += 1
        await self._store_push_config(call, task, configuration)
        if wait_seconds and not task.status.state.ends_turn:
            task = await self.tasks.wait_for_turn(call.workspace, call.caller_key, task, wait_seconds)
        return task

    async def _task_of(self, call: A2ACall, activity_id: str) -> A2ATask:
        """Return the task of a sent message. One that answered a message is a task without more to come."""
        found = await self.tasks.find(call.workspace, call.caller_key, activity_id)
        if found is not None:
            return found
        return A2ATask(
            id=activity_id,
            context_id=activity_id,
            org_id=call.workspace.org_id,
            workspace_id=call.workspace.id,
            status=TaskStatus(A2AState.COMPLETED, 0),
        )

    async def _delegate(self, call: A2ACall, draft: MessageDraft, wait_seconds: int) -> A2ATask:
        # A client of 0.3 repeats a message under its id; 1.0 has keys for that.
        key = message_key(draft) if call.line is A2ALine.V0_3 else draft.dedupe_key
        receipt, outcome = await self._delegation.begin_and_wait(
            call.request, draft, wait_seconds=wait_seconds, key=key
        )
        task = await self._task_of(call, outcome.row.id)
        about: dict[str, Any] = {"idempotent_hit": True} if receipt.is_duplicate else {}
        about |= {} if outcome.row.open else {"delivered": outcome.delivered or "inbox"}
        return structs.replace(task, metadata={**task.metadata, **about})

    async def _continue_task(self, call: A2ACall, draft: MessageDraft, task_id: str) -> A2ATask:
        """Send a message about a task that waits for its client, or works. Raises A2AError."""
        task = await self.find_task(call, task_id)
        if draft.context_id is not None and draft.context_id != task.context_id:
            raise A2AError(INVALID_PARAMS, f"contextId is not that of task {task_id}. Send its contextId, or none.")
        if task.status.state.is_terminal:
            raise A2AError(
                UNSUPPORTED_OPERATION, f"task {task_id} is {task.status.state}. Send a message without taskId."
            )
        decision = draft.message["metadata"].get(APPROVAL_EXTENSION)
        if decision is None:
            decision = read_decision(draft.message, call.extensions)
        if isinstance(decision, dict) and "decision" in decision:
            await self._decide_approval(call, task, decision)
            return await self.find_task(call, task_id)
        await self._message_routes.start_send(call.request, self._continuation(draft, task))
        return await self.find_task(call, task_id)

    def _continuation(self, draft: MessageDraft, task: A2ATask) -> MessageDraft:
        """Return the message as one of the conversation of its task."""
        metadata = {name: value for name, value in draft.message["metadata"].items() if name != DELEGATION_FLAG}
        question = task.status.message if task.status.state is A2AState.INPUT_REQUIRED else None
        is_person = draft.sender.workspace_id is None
        if question is not None and is_person:
            options = question.metadata.get("options")
            if isinstance(options, list) and draft.text.strip() in options:
                metadata |= {"option_of": question.id, "option": options.index(draft.text.strip())}
        elif question is not None and not task.is_delegation:
            metadata.setdefault("in_reply_to", question.id)
        message = {**draft.message, "metadata": metadata, "contextId": task.context_id}
        # The agent's question about a delegation has the delegation as its context, and so has the answer to it.
        context_id = task.id if task.is_delegation else task.context_id
        own_task_id = task.id if is_person else None
        return structs.replace(draft, message=message, context_id=context_id, task_id=own_task_id)

    async def _decide_approval(self, call: A2ACall, task: A2ATask, submitted: Mapping[str, Any]) -> None:
        """Decide on the approval that a task waits for, as its caller. Raises A2AError and the errors of deciding."""
        decision, approval_id = _DECISIONS.get(str(submitted["decision"])), submitted.get("approval_id")
        if decision is None or not isinstance(approval_id, str):
            names = ", ".join(_DECISIONS)
            raise A2AError(INVALID_PARAMS, f"the decision needs an approval_id and a decision: one of {names}.")
        about = task.metadata.get(APPROVAL_EXTENSION)
        if not isinstance(about, Mapping) or about.get("approval_id") != approval_id:
            raise A2AError(INVALID_PARAMS, f"task {task.id} does not wait for this approval. Read the task again.")
        row = await self._approval_reader.get_approval(call.workspace.org_id, approval_id)
        caller, comment = call.request.caller, submitted.get("comment")
        is_workspace = caller.kind is CredentialKind.WORKSPACE
        name = self._org.active_workspace(caller.id).name if is_workspace else caller.name
        party = Party((PartyKind.WORKSPACE if is_workspace else PartyKind.PERSON).value, caller.id, name)
        note = truncate_line(comment, self._limits.short_text_length) if isinstance(comment, str) else ""
        action_hash = submitted.get("action_hash")
        request = DecisionRequest(decision, None, action_hash if isinstance(action_hash, str) else None, None)
        decided = DecisionInput(request=request, by=party, note=note, session=_SESSION)
        try:
            await self._approval_writer.decide(row, decided)
        except MoleculeError as error:
            found = error_mapping(error)
            kind = A2AErrorKind(found.rpc, found.code.upper(), found.status, "FAILED_PRECONDITION")
            raise A2AError(kind, error.text, domain=OWN_DOMAIN) from None

    def _parse_draft(self, call: A2ACall) -> MessageDraft:
        """Parse the message of a request. Raises A2AError, InvalidMessage, InvalidField."""
        params = {name: value for name, value in call.params.items() if name not in _UNSTORED_PARAMS}
        message = params.get("message")
        if not isinstance(message, dict):
            raise InvalidMessage(reason="params.message is missing or not an object. Send an object.")
        if call.line is A2ALine.V1:
            params["message"] = parse_v1_message(message)
            params |= _lifetime_of(params)
        rpc_id = call.rpc_id if isinstance(call.rpc_id, str | int) else None
        body = {"jsonrpc": "2.0", "id": rpc_id, "method": "message/send", "params": params}
        sent = parse_send(body, strict=not call.is_lenient, limits=self._limits)
        return draft_of(call.request, sent, self._idempotency_key(call, sent.message["metadata"]))

    def _idempotency_key(self, call: A2ACall, metadata: Mapping[str, Any]) -> str | None:
        """Return the key of a request: of its header, or of the extension."""
        key = idempotency_key_of(call.request, self._limits)
        named = metadata.get(IDEMPOTENCY_EXTENSION)
        if key is not None or not isinstance(named, dict):
            return key
        key = named.get("key")
        if not isinstance(key, str) or not is_valid_client_id(key, self._limits.id_length):
            raise A2AError(INVALID_PARAMS, "the key of the idempotency extension is not a valid id.")
        return key

    def _check_message(self, call: A2ACall, draft: MessageDraft) -> None:
        """Check a message before anything is stored. Raises A2AError."""
        missing = [uri for uri in cards.required_extensions(call.workspace) if uri not in call.extensions]
        if missing:
            raise A2AError(
                EXTENSION_REQUIRED,
                f"this agent requires the extension {missing[0]}. Name it in the header A2A-Extensions.",
            )
        modes = cards.input_modes(call.workspace)
        for media_type in media_types_of(draft.message["parts"]):
            if not cards.accepts_media_type(modes, media_type):
                shown = truncate_line(media_type, 100)
                raise A2AError(
                    CONTENT_TYPE_NOT_SUPPORTED, f"this agent does not accept {shown}. It accepts: {', '.join(modes)}."
                )

    async def _check_push_config(self, call: A2ACall, configuration: Mapping[str, Any]) -> None:
        config = _push_config(configuration)
        if config is not None and self.push is None:
            raise A2AError(PUSH_NOT_SUPPORTED, "this server sends no push notifications.")
        if config is not None and self.push is not None:
            await self.push.check(call, config)

    def _wait_seconds(self, call: A2ACall, configuration: Mapping[str, Any]) -> int:
        """Return how long a request waits for the end of the turn.

        1.0 waits unless it asks not to. 0.3 waits for a polling agent only if it asks to, as it always has."""
        returns_now, blocking = bool_param(configuration, "returnImmediately"), bool_param(configuration, "blocking")
        named = call.request.header(b"x-timeout")
        if named is None:
            waits = (
                not returns_now
                if call.line is A2ALine.V1
                else blocking is True or (blocking is None and call.workspace.uses_push)
            )
            return self._limits.patience_seconds if waits else 0
        most = self._limits.patience_most_seconds
        return read_int_param({"X-Timeout": named.strip()}, "X-Timeout", minimum=0, maximum=most) or 0

    async def _store_push_config(self, call: A2ACall, task: A2ATask, configuration: Mapping[str, Any]) -> None:
        config = _push_config(configuration)
        if self.push is not None and config is not None:
            await self.push.create(call, task, config)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def check_reach(self, request: Request) -> None:
        """Check that the caller may talk to the workspace. Raises CommunicationDenied."""
        check_may_talk(self._org, request.caller, request.workspace)

    async def find_task(self, call: A2ACall, task_id: str | None) -> A2ATask:
        """Return a task of the caller at this workspace. Raises A2AError."""
        found = None if task_id is None else await self.tasks.find(call.workspace, call.caller_key, task_id)
        if found is None:
            raise A2AError(TASK_NOT_FOUND, "the task was not found.")
        return found

    async def get(self, call: A2ACall) -> A2ATask:
        """Return a task. Raises A2AError."""
        return await self.find_task(call, text_param(call.params, "id", required=True))

    async def list_tasks(self, call: A2ACall) -> TaskPage:
        """Return a page of the caller's tasks. Raises A2AError, CursorNotFound."""
        count = int_param(call.params, "pageSize", least=1, most=_MAX_PAGE) or _DEFAULT_PAGE
        filters = TaskFilter(
            text_param(call.params, "contextId"),
            _parse_state(text_param(call.params, "status")),
            _parse_time(text_param(call.params, "statusTimestampAfter")),
        )
        token = text_param(call.params, "pageToken")
        return await self.tasks.list_tasks(call.workspace, call.caller_key, filters, count, token)

    async def cancel(self, call: A2ACall) -> A2ATask:
        """Cancel a task that has not ended, and notify its agent. Raises A2AError."""
        task = await self.get(call)
        if task.status.state.is_terminal:
            raise A2AError(TASK_NOT_CANCELABLE, f"task {task.id} is {task.status.state} already.")
        if task.is_delegation:
            row = await self.tasks.find_delegation(call.workspace, call.caller_key, task.id)
            if row is not None:
                await self._delegation_writer.cancel(row, sender_of(call.request.caller), "")
        elif not await self._canceller.cancel(call.workspace.id, task.last_seq):
            await self._message_routes.start_send(call.request, _cancel_draft(call, task))
        cancelled = await self.find_task(call, task.id)
        if cancelled.status.state is not A2AState.CANCELED:
            raise A2AError(TASK_NOT_CANCELABLE, f"task {task.id} is {cancelled.status.state} already.")
        return cancelled


def _cancel_draft(call: A2ACall, task: A2ATask) -> MessageDraft:
    """Return the message that cancels a task whose agent waits for an answer."""
    parts = [{"kind": "text", "text": _CANCEL_TEXT}]
    metadata = {"intent": Intent.INFORM, CANCEL_MEMBER: True}
    message = {"kind": "message", "role": "user", "parts": parts, "metadata": metadata}
    sender = sender_of(call.request.caller)
    return MessageDraft(
        sender=sender,
        params={"metadata": {}},
        message={**message, "taskId": task.id, "contextId": task.context_id},
        rpc_id=None,
        text=_CANCEL_TEXT,
        intent=Intent.INFORM,
        dedupe_key=None,
        context_id=task.context_id,
        task_id=task.id if sender.workspace_id is None else None,
    )


_CANCEL_TEXT = "This task was cancelled by its sender. Its result is no longer needed."
_UNSTORED_PARAMS = ("configuration", "tenant")
_LIFETIME = "expires_in_seconds"


def _lifetime_of(params: dict[str, Any]) -> dict[str, Any]:
    """Return `expires_in_seconds` of a 1.0 request, if it has one.

    Clients made from the schema can set it in `metadata` only, where every number is a floating-point one."""
    metadata = params.get("metadata")
    seconds = metadata.get(_LIFETIME) if isinstance(metadata, dict) else None
    seconds = params.pop("expiresInSeconds", seconds)
    if isinstance(seconds, float) and seconds.is_integer():
        seconds = int(seconds)
    return {} if seconds is None else {_LIFETIME: seconds}


def history_length(params: Mapping[str, Any]) -> int | None:
    """Return how many messages of the history a request asks for; None: all. Raises A2AError."""
    configuration = object_param(params, "configuration")
    found = int_param(configuration, "historyLength", least=0, most=_MAX_HISTORY)
    return int_param(params, "historyLength", least=0, most=_MAX_HISTORY) if found is None else found


def _push_config(configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for name in ("taskPushNotificationConfig", "pushNotificationConfig"):
        config = configuration.get(name)
        if isinstance(config, dict):
            return config
    return None


def _parse_state(text: str | None) -> A2AState | None:
    if text is None:
        return None
    found = [state for state in A2AState if text in (state.value, state.spelled(A2ALine.V1))]
    if not found:
        raise A2AError(INVALID_PARAMS, "status has an unknown value. Use a state like TASK_STATE_WORKING.")
    return found[0]


def _parse_time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise A2AError(INVALID_PARAMS, "statusTimestampAfter is not a time of RFC 3339.") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * SECOND)
