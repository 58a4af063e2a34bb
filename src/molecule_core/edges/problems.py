"""The one error table outward: class -> code -> HTTP status -> JSON-RPC code. docs/errors.md lists it for people."""

from typing import Any, NamedTuple

import msgspec

from molecule_core.ground import errors, refusals
from molecule_core.ground.errors import MoleculeError


class Problem(NamedTuple):
    """How a refusal looks from outside."""

    code: str
    status: int
    rpc: int


_INVALID_PARAMS = -32602
_SERVER = -32000

PROBLEMS: dict[type[MoleculeError], Problem] = {
    errors.InvalidJson: Problem("invalid_json", 400, -32700),
    errors.JsonTooDeep: Problem("json_too_deep", 400, -32700),
    errors.BodyTooLarge: Problem("body_too_large", 413, _SERVER),
    errors.BodyTooSlow: Problem("body_too_slow", 408, _SERVER),
    errors.HeadersTooLarge: Problem("headers_too_large", 431, _SERVER),
    errors.HeadersTooSlow: Problem("headers_too_slow", 408, _SERVER),
    errors.BadHttp: Problem("bad_http", 400, _SERVER),
    errors.WrongHost: Problem("wrong_host", 421, _SERVER),
    errors.NotFound: Problem("not_found", 404, _SERVER),
    errors.NoSuchRoute: Problem("no_such_route", 404, _SERVER),
    errors.MethodNotAllowed: Problem("method_not_allowed", 405, _SERVER),
    errors.WebSocketNeeded: Problem("websocket_needed", 426, _SERVER),
    errors.InvalidField: Problem("invalid_field", 422, _INVALID_PARAMS),
    errors.MissingCredential: Problem("missing_credential", 401, _SERVER),
    errors.InvalidCredential: Problem("invalid_credential", 401, _SERVER),
    errors.InvalidLogin: Problem("invalid_login", 401, _SERVER),
    errors.CrossOrigin: Problem("cross_origin", 403, _SERVER),
    errors.CredentialNotAccepted: Problem("credential_not_accepted", 403, _SERVER),
    errors.RoleTooLow: Problem("role_too_low", 403, _SERVER),
    errors.InvalidCaller: Problem("invalid_caller", 403, _SERVER),
    errors.MayNotTalk: Problem("may_not_talk", 403, _SERVER),
    errors.InvalidName: Problem("invalid_name", 422, _INVALID_PARAMS),
    errors.InvalidParent: Problem("invalid_parent", 422, _INVALID_PARAMS),
    errors.OrgExists: Problem("org_exists", 409, _INVALID_PARAMS),
    errors.UrlMissing: Problem("url_missing", 400, _INVALID_PARAMS),
    errors.WorkspaceRemoved: Problem("workspace_removed", 410, _SERVER),
    errors.ConfirmationRequired: Problem("confirmation_required", 409, _SERVER),
    errors.StatusForbids: Problem("status_forbids", 409, _SERVER),
    errors.TooManyTokens: Problem("too_many_tokens", 409, _SERVER),
    errors.LastOwner: Problem("last_owner", 409, _SERVER),
    errors.InvalidMessage: Problem("invalid_message", 400, _INVALID_PARAMS),
    errors.UnknownMethod: Problem("unknown_method", 400, -32601),
    errors.A2AVersionNotSupported: Problem("a2a_version_not_supported", 400, -32009),
    errors.MessageIdReused: Problem("message_id_reused", 409, _INVALID_PARAMS),
    errors.InboxFull: Problem("inbox_full", 429, _SERVER),
    errors.ChainFrozen: Problem("chain_frozen", 429, _SERVER),
    errors.ChainEnded: Problem("chain_ended", 409, _SERVER),
    errors.ChainNotFrozen: Problem("chain_not_frozen", 409, _SERVER),
    errors.BroadcastDisabled: Problem("broadcast_disabled", 403, _SERVER),
    errors.BroadcastTooWide: Problem("broadcast_too_wide", 422, _INVALID_PARAMS),
    errors.RateLimited: Problem("rate_limited", 429, _SERVER),
    errors.TalkToUserDisabled: Problem("talk_to_user_disabled", 403, _SERVER),
    errors.CursorGone: Problem("cursor_gone", 410, _SERVER),
    errors.StaleAttempt: Problem("stale_attempt", 409, _SERVER),
    errors.NotDead: Problem("not_dead", 409, _SERVER),
    errors.NotTaken: Problem("not_taken", 502, _SERVER),
    errors.AttemptMissing: Problem("attempt_missing", 422, _INVALID_PARAMS),
    errors.UnknownHandle: Problem("unknown_handle", 404, _SERVER),
    errors.StaleHandle: Problem("stale_handle", 409, _SERVER),
    errors.HandleOfAnother: Problem("handle_of_another", 409, _SERVER),
    errors.NoDraft: Problem("no_draft", 409, _SERVER),
    errors.UnsafeUrl: Problem("unsafe_url", 400, _INVALID_PARAMS),
    errors.FetchFailed: Problem("fetch_failed", 502, _SERVER),
    errors.InvalidUpload: Problem("invalid_upload", 400, _INVALID_PARAMS),
    errors.FileTooLarge: Problem("file_too_large", 413, _SERVER),
    errors.NoRoom: Problem("no_room", 507, _SERVER),
    errors.FilesUnavailable: Problem("files_unavailable", 503, _SERVER),
    errors.NoPreview: Problem("no_preview", 415, _SERVER),
    errors.TooManyOpen: Problem("too_many_open", 429, _SERVER),
    errors.ScopeForbidden: Problem("scope_forbidden", 403, _SERVER),
    errors.MemoryOfAnother: Problem("memory_of_another", 403, _SERVER),
    errors.TooManyKept: Problem("too_many_kept", 409, _SERVER),
    refusals.SharedWithChildren: Problem("shared_with_children", 403, _SERVER),
    refusals.NoPromptYet: Problem("no_prompt_yet", 404, _SERVER),
    errors.VersionMismatch: Problem("version_mismatch", 409, _SERVER),
    refusals.InvalidTemplate: Problem("invalid_template", 422, _INVALID_PARAMS),
    refusals.NotOneTemplate: Problem("not_one_template", 400, _INVALID_PARAMS),
    refusals.TemplateInUse: Problem("template_in_use", 409, _SERVER),
    refusals.TooManyTemplates: Problem("too_many_templates", 409, _SERVER),
    refusals.SelfDelegation: Problem("self_delegation", 422, _INVALID_PARAMS),
    refusals.DelegationLimit: Problem("delegation_limit", 429, _SERVER),
    refusals.DelegationCycle: Problem("delegation_cycle", 409, _SERVER),
    refusals.DelegationOpen: Problem("delegation_open", 409, _SERVER),
    refusals.NotTheWorker: Problem("not_the_worker", 403, _SERVER),
    refusals.DecideInstead: Problem("decide_instead", 409, _SERVER),
    refusals.OwnApproval: Problem("own_approval", 403, _SERVER),
    refusals.AlreadyDecided: Problem("already_decided", 409, _SERVER),
    refusals.ApprovalMovedOn: Problem("approval_moved_on", 409, _SERVER),
    refusals.ApprovalChanged: Problem("approval_changed", 409, _SERVER),
    refusals.ApprovalEnded: Problem("approval_ended", 409, _SERVER),
    refusals.NothingAsked: Problem("nothing_asked", 409, _SERVER),
    refusals.NobodyAbove: Problem("nobody_above", 409, _SERVER),
    refusals.TooManyQuestions: Problem("too_many_questions", 409, _SERVER),
    refusals.ApprovalUsed: Problem("approval_used", 409, _SERVER),
    refusals.NotApproved: Problem("not_approved", 409, _SERVER),
    refusals.ApprovalNeeded: Problem("approval_needed", 403, _SERVER),
    refusals.TooManyApprovals: Problem("too_many_approvals", 409, _SERVER),
    refusals.BaseMissing: Problem("base_missing", 409, _SERVER),
    refusals.ThreadOwned: Problem("thread_owned", 409, _SERVER),
    refusals.StaleGeneration: Problem("stale_generation", 409, _SERVER),
    refusals.ThreadClosed: Problem("thread_closed", 409, _SERVER),
    refusals.ThreadBusy: Problem("thread_busy", 409, _SERVER),
    refusals.NoTurn: Problem("no_turn", 409, _SERVER),
    refusals.OtherTurn: Problem("other_turn", 409, _SERVER),
    refusals.TurnNotOpen: Problem("turn_not_open", 409, _SERVER),
    refusals.ThreadLimit: Problem("thread_limit", 429, _SERVER),
    refusals.InvalidTask: Problem("invalid_task", 422, _INVALID_PARAMS),
    refusals.NoSuchAgent: Problem("no_such_agent", 404, _SERVER),
    refusals.RootAsleep: Problem("root_asleep", 403, _SERVER),
    refusals.SourceLost: Problem("source_lost", 409, _SERVER),
    errors.ServerBusy: Problem("server_busy", 503, _SERVER),
    errors.StoreUnavailable: Problem("platform_unavailable", 503, _SERVER),
    errors.Unexpected: Problem("unexpected", 500, -32603),
}

SPOKEN_IN_JSON_RPC = (
    errors.InvalidMessage,
    errors.UnknownMethod,
    errors.A2AVersionNotSupported,
    errors.MessageIdReused,
    errors.ChainFrozen,
    errors.ChainEnded,
    errors.UnknownHandle,
    errors.StaleHandle,
    errors.HandleOfAnother,
    refusals.SelfDelegation,
    refusals.DelegationLimit,
    refusals.DelegationCycle,
    refusals.DecideInstead,
)
"""Refusals that answer a JSON-RPC request in its own language; all others are about the transport."""


def problem_of(error: MoleculeError) -> Problem:
    """The row of a refusal."""
    return PROBLEMS[type(error)]


def problem_body(error: MoleculeError) -> bytes:
    """Problem details (RFC 9457), with the plain `error` text beside them that existing clients read."""
    row = problem_of(error)
    members: dict[str, Any] = {
        "error": error.text,
        "code": row.code,
        "type": f"about:blank#{row.code}",
        "title": row.code.replace("_", " "),
        "status": row.status,  # control: problem-status
        "detail": error.text,
    }
    return msgspec.json.encode({**members, **error.extras})


def problem_headers(error: MoleculeError) -> list[tuple[bytes, bytes]]:
    """Headers that say the same to a client that reads no bodies."""
    headers = []
    if "retry_after" in error.extras:
        headers.append((b"retry-after", str(error.extras["retry_after"]).encode()))
    if problem_of(error).status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="molecule"'))
    if isinstance(error, errors.MethodNotAllowed):
        headers.append((b"allow", error.details["allowed"].encode()))
    if isinstance(error, errors.WebSocketNeeded):
        headers += [(b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
    return headers
