"""Error table for clients: class, code, HTTP status, JSON-RPC code. docs/reference/errors.md is generated from it."""

from typing import Any, NamedTuple

import msgspec

from molecule_core.approvals import errors as approval_errors
from molecule_core.budgets import errors as budget_errors
from molecule_core.common import errors
from molecule_core.common.errors import MoleculeError
from molecule_core.delegations import errors as delegation_errors
from molecule_core.live_turns import errors as live_turn_errors
from molecule_core.memory import errors as memory_errors
from molecule_core.messages import errors as message_errors
from molecule_core.runners import errors as runner_errors
from molecule_core.schedules import errors as schedule_errors
from molecule_core.search import errors as search_errors
from molecule_core.threads import errors as thread_errors


class ErrorMapping(NamedTuple):
    """Code, HTTP status and JSON-RPC code of an error class."""

    code: str
    status: int
    rpc: int


_INVALID_PARAMS = -32602
_SERVER = -32000

ERROR_MAPPINGS: dict[type[MoleculeError], ErrorMapping] = {
    errors.InvalidJson: ErrorMapping("invalid_json", 400, -32700),
    errors.JsonTooDeep: ErrorMapping("json_too_deep", 400, -32700),
    errors.BodyTooLarge: ErrorMapping("body_too_large", 413, _SERVER),
    errors.BodyTimeout: ErrorMapping("body_too_slow", 408, _SERVER),
    errors.HeadersTooLarge: ErrorMapping("headers_too_large", 431, _SERVER),
    errors.HeadersTimeout: ErrorMapping("headers_too_slow", 408, _SERVER),
    errors.BadHttp: ErrorMapping("bad_http", 400, _SERVER),
    errors.HostNotAllowed: ErrorMapping("wrong_host", 421, _SERVER),
    errors.NotFound: ErrorMapping("not_found", 404, _SERVER),
    errors.RouteNotFound: ErrorMapping("no_such_route", 404, _SERVER),
    errors.MethodNotAllowed: ErrorMapping("method_not_allowed", 405, _SERVER),
    errors.WebSocketRequired: ErrorMapping("websocket_needed", 426, _SERVER),
    errors.InvalidField: ErrorMapping("invalid_field", 422, _INVALID_PARAMS),
    errors.MissingCredential: ErrorMapping("missing_credential", 401, _SERVER),
    errors.InvalidCredential: ErrorMapping("invalid_credential", 401, _SERVER),
    errors.InvalidLogin: ErrorMapping("invalid_login", 401, _SERVER),
    errors.OtherSession: ErrorMapping("other_session", 409, _SERVER),
    errors.CrossOrigin: ErrorMapping("cross_origin", 403, _SERVER),
    errors.CredentialNotAccepted: ErrorMapping("credential_not_accepted", 403, _SERVER),
    errors.TokenOfOtherWorkspace: ErrorMapping("token_of_other_workspace", 403, _SERVER),
    errors.InsufficientRole: ErrorMapping("role_too_low", 403, _SERVER),
    errors.InvalidCaller: ErrorMapping("invalid_caller", 403, _SERVER),
    errors.CommunicationDenied: ErrorMapping("may_not_talk", 403, _SERVER),
    errors.InvalidName: ErrorMapping("invalid_name", 422, _INVALID_PARAMS),
    errors.InvalidParent: ErrorMapping("invalid_parent", 422, _INVALID_PARAMS),
    errors.OrgExists: ErrorMapping("org_exists", 409, _INVALID_PARAMS),
    errors.UrlRequired: ErrorMapping("url_missing", 400, _INVALID_PARAMS),
    errors.WorkspaceRemoved: ErrorMapping("workspace_removed", 410, _SERVER),
    errors.ConfirmationRequired: ErrorMapping("confirmation_required", 409, _SERVER),
    errors.StatusConflict: ErrorMapping("status_forbids", 409, _SERVER),
    errors.TooManyTokens: ErrorMapping("too_many_tokens", 409, _SERVER),
    errors.LastOwner: ErrorMapping("last_owner", 409, _SERVER),
    errors.InvalidMessage: ErrorMapping("invalid_message", 400, _INVALID_PARAMS),
    errors.UnknownMethod: ErrorMapping("unknown_method", 400, -32601),
    errors.MessageIdReused: ErrorMapping("message_id_reused", 409, _INVALID_PARAMS),
    errors.InboxFull: ErrorMapping("inbox_full", 429, _SERVER),
    message_errors.StorageFull: ErrorMapping("storage_full", 507, _SERVER),
    errors.ChainFrozen: ErrorMapping("chain_frozen", 429, _SERVER),
    errors.ChainEnded: ErrorMapping("chain_ended", 409, _SERVER),
    errors.ChainNotFrozen: ErrorMapping("chain_not_frozen", 409, _SERVER),
    errors.BroadcastDisabled: ErrorMapping("broadcast_disabled", 403, _SERVER),
    errors.BroadcastTooWide: ErrorMapping("broadcast_too_wide", 422, _INVALID_PARAMS),
    errors.RateLimited: ErrorMapping("rate_limited", 429, _SERVER),
    errors.TalkToUserDisabled: ErrorMapping("talk_to_user_disabled", 403, _SERVER),
    search_errors.EmptySearch: ErrorMapping("empty_search", 400, _INVALID_PARAMS),
    errors.CursorNotFound: ErrorMapping("cursor_gone", 410, _SERVER),
    errors.StaleAttempt: ErrorMapping("stale_attempt", 409, _SERVER),
    errors.NotADeadLetter: ErrorMapping("not_dead", 409, _SERVER),
    errors.DeliveryRejected: ErrorMapping("not_taken", 502, _SERVER),
    errors.AttemptRequired: ErrorMapping("attempt_missing", 422, _INVALID_PARAMS),
    errors.UnknownHandle: ErrorMapping("unknown_handle", 404, _SERVER),
    errors.StaleHandle: ErrorMapping("stale_handle", 409, _SERVER),
    errors.AmbiguousReply: ErrorMapping("ambiguous_reply", 409, _INVALID_PARAMS),
    errors.HandleMismatch: ErrorMapping("handle_of_another", 409, _SERVER),
    errors.NoPendingDraft: ErrorMapping("no_draft", 409, _SERVER),
    errors.UnsafeUrl: ErrorMapping("unsafe_url", 400, _INVALID_PARAMS),
    errors.FetchFailed: ErrorMapping("fetch_failed", 502, _SERVER),
    errors.InvalidUpload: ErrorMapping("invalid_upload", 400, _INVALID_PARAMS),
    errors.FileTooLarge: ErrorMapping("file_too_large", 413, _SERVER),
    errors.DiskFull: ErrorMapping("no_room", 507, _SERVER),
    errors.FilesUnavailable: ErrorMapping("files_unavailable", 503, _SERVER),
    errors.PreviewUnavailable: ErrorMapping("no_preview", 415, _SERVER),
    errors.CapacityExceeded: ErrorMapping("too_many_open", 429, _SERVER),
    errors.ScopeForbidden: ErrorMapping("scope_forbidden", 403, _SERVER),
    errors.MemoryNotOwned: ErrorMapping("memory_of_another", 403, _SERVER),
    errors.MemoryQuotaExceeded: ErrorMapping("too_many_kept", 409, _SERVER),
    memory_errors.OrgMemoryFull: ErrorMapping("memory_full", 409, _SERVER),
    errors.SharedFilesForbidden: ErrorMapping("shared_with_children", 403, _SERVER),
    errors.PromptNotReported: ErrorMapping("no_prompt_yet", 404, _SERVER),
    errors.VersionMismatch: ErrorMapping("version_mismatch", 409, _SERVER),
    errors.InvalidTemplate: ErrorMapping("invalid_template", 422, _INVALID_PARAMS),
    errors.AmbiguousTemplate: ErrorMapping("not_one_template", 400, _INVALID_PARAMS),
    errors.TemplateInUse: ErrorMapping("template_in_use", 409, _SERVER),
    errors.TooManyTemplates: ErrorMapping("too_many_templates", 409, _SERVER),
    delegation_errors.SelfDelegation: ErrorMapping("self_delegation", 422, _INVALID_PARAMS),
    delegation_errors.DelegationLimit: ErrorMapping("delegation_limit", 429, _SERVER),
    delegation_errors.DelegationCycle: ErrorMapping("delegation_cycle", 409, _SERVER),
    delegation_errors.ScopeExceeded: ErrorMapping("outside_scope", 403, _SERVER),
    delegation_errors.DelegationNotEnded: ErrorMapping("delegation_open", 409, _SERVER),
    delegation_errors.NotTheAssignee: ErrorMapping("not_the_worker", 403, _SERVER),
    errors.DecisionRequired: ErrorMapping("decide_instead", 409, _SERVER),
    approval_errors.SelfApproval: ErrorMapping("own_approval", 403, _SERVER),
    approval_errors.AlreadyDecided: ErrorMapping("already_decided", 409, _SERVER),
    approval_errors.ApprovalReassigned: ErrorMapping("approval_moved_on", 409, _SERVER),
    approval_errors.ApprovalChanged: ErrorMapping("approval_changed", 409, _SERVER),
    approval_errors.ApprovalMismatch: ErrorMapping("approval_mismatch", 409, _SERVER),
    approval_errors.ApprovalEnded: ErrorMapping("approval_ended", 409, _SERVER),
    approval_errors.NoPendingQuestion: ErrorMapping("nothing_asked", 409, _SERVER),
    approval_errors.NoHigherApprover: ErrorMapping("nobody_above", 409, _SERVER),
    approval_errors.TooManyQuestions: ErrorMapping("too_many_questions", 409, _SERVER),
    approval_errors.ApprovalUsed: ErrorMapping("approval_used", 409, _SERVER),
    approval_errors.NotApproved: ErrorMapping("not_approved", 409, _SERVER),
    approval_errors.ApprovalRequired: ErrorMapping("approval_needed", 403, _SERVER),
    approval_errors.TooManyApprovals: ErrorMapping("too_many_approvals", 409, _SERVER),
    thread_errors.BaseInstructionsRequired: ErrorMapping("base_missing", 409, _SERVER),
    thread_errors.ThreadLeased: ErrorMapping("thread_owned", 409, _SERVER),
    thread_errors.StaleGeneration: ErrorMapping("stale_generation", 409, _SERVER),
    thread_errors.ThreadClosedError: ErrorMapping("thread_closed", 409, _SERVER),
    thread_errors.ThreadBusy: ErrorMapping("thread_busy", 409, _SERVER),
    runner_errors.AgentHasRunner: ErrorMapping("agent_has_runner", 409, _SERVER),
    live_turn_errors.TurnNotRunning: ErrorMapping("turn_not_running", 409, _SERVER),
    thread_errors.PermissionsExceeded: ErrorMapping("wider_permissions", 403, _SERVER),
    thread_errors.NoRunningTurn: ErrorMapping("no_turn", 409, _SERVER),
    thread_errors.TurnMismatch: ErrorMapping("other_turn", 409, _SERVER),
    thread_errors.TurnNotOpen: ErrorMapping("turn_not_open", 409, _SERVER),
    budget_errors.OverBudget: ErrorMapping("over_budget", 429, _SERVER),
    budget_errors.BudgetExists: ErrorMapping("budget_exists", 409, _INVALID_PARAMS),
    budget_errors.TooManyBudgets: ErrorMapping("too_many_budgets", 409, _SERVER),
    schedule_errors.ScheduleExists: ErrorMapping("schedule_exists", 409, _INVALID_PARAMS),
    schedule_errors.TooManySchedules: ErrorMapping("too_many_schedules", 409, _SERVER),
    thread_errors.ThreadLimit: ErrorMapping("thread_limit", 429, _SERVER),
    thread_errors.InvalidTask: ErrorMapping("invalid_task", 422, _INVALID_PARAMS),
    thread_errors.AgentNotFound: ErrorMapping("no_such_agent", 404, _SERVER),
    thread_errors.RootNotWakeable: ErrorMapping("root_asleep", 403, _SERVER),
    thread_errors.WaitTargetGone: ErrorMapping("source_lost", 409, _SERVER),
    errors.ServerBusy: ErrorMapping("server_busy", 503, _SERVER),
    errors.StoreUnavailable: ErrorMapping("platform_unavailable", 503, _SERVER),
    errors.StoreWriteFailed: ErrorMapping("store_write_failed", 503, _SERVER),
    errors.InternalError: ErrorMapping("unexpected", 500, -32603),
}

JSON_RPC_ERRORS = (
    errors.InvalidMessage,
    errors.UnknownMethod,
    errors.MessageIdReused,
    errors.ChainFrozen,
    errors.ChainEnded,
    errors.UnknownHandle,
    errors.StaleHandle,
    errors.HandleMismatch,
    delegation_errors.SelfDelegation,
    delegation_errors.DelegationLimit,
    delegation_errors.DelegationCycle,
    errors.DecisionRequired,
)
"""Errors that are sent as JSON-RPC errors; all others concern the transport and are sent as HTTP errors."""


def error_mapping(error: MoleculeError) -> ErrorMapping:
    """Return the table row of an error."""
    return ERROR_MAPPINGS[type(error)]


def problem_body(error: MoleculeError) -> bytes:
    """Encode problem details (RFC 9457), with a plain `error` text that existing clients read."""
    mapping = error_mapping(error)
    members: dict[str, Any] = {
        "error": error.text,
        "code": mapping.code,
        "type": f"about:blank#{mapping.code}",
        "title": mapping.code.replace("_", " "),
        "status": mapping.status,  # control: problem-status
        "detail": error.text,
    }
    return msgspec.json.encode({**members, **error.extras})


def problem_headers(error: MoleculeError) -> list[tuple[bytes, bytes]]:
    """Return the headers of an error, for clients that read no bodies."""
    headers = []
    if "retry_after" in error.extras:
        headers.append((b"retry-after", str(error.extras["retry_after"]).encode()))
    if error_mapping(error).status == 401:
        challenge = error.details.get("challenge")
        extra = "" if challenge is None else f", {challenge}"
        headers.append((b"www-authenticate", f'Bearer realm="molecule"{extra}'.encode()))
    if isinstance(error, errors.MethodNotAllowed):
        headers.append((b"allow", error.details["allowed"].encode()))
    if isinstance(error, errors.WebSocketRequired):
        headers += [(b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    return headers
