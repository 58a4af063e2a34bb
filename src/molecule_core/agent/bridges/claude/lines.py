"""Lines of Claude Code's stream-json: builds those to it, reads those from it. Pure.

Traps, each seen with a real version:
- `subtype` of a result is `success` for interrupted turns and for errors of the API: `terminal_reason` decides.
- A result answers all messages in `user_message_uuids`: a steered message is answered by the same result.
- A message id that was sent before is only repeated to us (`isReplay`), and no turn follows.
- A request that a limit refused is repeated by the program itself if the vendor says when, up to a minute later
  (`api_retry`); a longer limit ends the turn.
- Versions before 2.1.330 report no `command_lifecycle` and no `terminal_reason`.
- `total_cost_usd` is the sum of the process, `usage` is that of the turn.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.agent.bridges.sessions import QuestionOption, ToolPermission, TurnUsage, UserQuestion
from molecule_core.agent.sanitize import sanitize_line

Line = dict[str, Any]
BEFORE_TOOL = "PreToolUse"
"""The hook that the program runs before each call of a tool, also of one that needs no permission."""
BEFORE_TOOL_ID = "molecule-scope"
QUESTION_TOOL = "AskUserQuestion"
_ABORTED_PREFIX = "aborted"
_COMPLETED = "completed"
_TOO_MANY_REQUESTS, _RATE_LIMIT = 429, "rate_limit"
_MAX_REASON, _MAX_TITLE = 1000, 200
# "Claude AI usage limit reached|1764360000": the end of a subscription's limit, in Unix seconds.
_LIMIT_TEXT = re.compile(r"usage limit reached\|(\d{9,11})")
_LIMIT_WORDS = re.compile(r"\b(usage|session|weekly|5-hour|rate) limit\b|hit your limit", re.IGNORECASE)
# The argument that says most about a call, for its title.
_TITLE_FIELDS = ("description", "command", "file_path", "path", "pattern", "query", "url", "prompt")


class ResultLine(Struct, frozen=True, kw_only=True):
    """The end of a turn. `answered_ids`: the messages that it answers; None if this version does not say.

    `terminal_reason`: empty if this version does not say.
    """

    text: str
    is_error: bool
    terminal_reason: str
    answered_ids: tuple[str, ...] | None
    status: int | None
    usage: TurnUsage
    total_cost: float | None

    @property
    def is_aborted(self) -> bool:
        """Return whether the turn was broken off, by an interrupt or by a message that could not wait."""
        return self.terminal_reason.startswith(_ABORTED_PREFIX)

    @property
    def is_answer(self) -> bool:
        """Return whether the text is the answer of a whole turn."""
        return not self.is_error and self.terminal_reason in (_COMPLETED, "")

    @property
    def is_limited(self) -> bool:
        """Return whether a limit of the vendor ended the turn."""
        return self.is_error and (self.status == _TOO_MANY_REQUESTS or bool(_LIMIT_WORDS.search(self.text)))


def read_result(line: Line) -> ResultLine:
    """Read a line of type `result`."""
    usage, ids = _as_object(line.get("usage")), line.get("user_message_uuids")
    cost, status = line.get("total_cost_usd"), line.get("api_error_status")
    errors = line.get("errors")
    text = line.get("result")
    if not isinstance(text, str):
        text = "\n".join(each for each in errors if isinstance(each, str)) if isinstance(errors, list) else ""
    return ResultLine(
        text=text,
        is_error=line.get("is_error") is not False,
        terminal_reason=_as_text(line.get("terminal_reason")),
        answered_ids=tuple(each for each in ids if isinstance(each, str)) if isinstance(ids, list) else None,
        status=status if isinstance(status, int) else None,
        usage=TurnUsage(
            input_tokens=_as_count(usage.get("input_tokens")) + _as_count(usage.get("cache_creation_input_tokens")),
            output_tokens=_as_count(usage.get("output_tokens")),
            cached_tokens=_as_count(usage.get("cache_read_input_tokens")),
            model=_main_model(line.get("modelUsage")),
        ),
        total_cost=float(cost) if isinstance(cost, int | float) else None,
    )


def _main_model(by_model: object) -> str:
    """Return the model that wrote most tokens; empty if the program does not say it."""
    written = {name: _as_count(_as_object(each).get("outputTokens")) for name, each in _as_object(by_model).items()}
    return max(written, key=lambda name: written[name], default="")


def limit_end(result: ResultLine) -> int | None:
    """Return when the limit that ended a turn ends, in Unix milliseconds; None if the result does not say."""
    found = _LIMIT_TEXT.search(result.text)
    return int(found.group(1)) * 1000 if found else None


def limit_event_end(line: Line) -> int | None:
    """Return the end of a limit that a `rate_limit_event` reports as reached, in Unix milliseconds; else None."""
    info = _as_object(line.get("rate_limit_info"))
    resets_at = info.get("resetsAt")
    if info.get("status") != "rejected" or not isinstance(resets_at, int | float):
        return None
    return int(resets_at * 1000)


def failure_reason(result: ResultLine) -> str:
    """Return why a turn failed and what to do."""
    what = sanitize_line(result.text, _MAX_REASON) or result.terminal_reason or "it gave no reason"
    status = f" (status {result.status})" if result.status else ""
    return f"Claude Code failed{status}: {what}"


def retry_text(line: Line) -> str:
    """Return a short line about a repeated request to the vendor."""
    error = sanitize_line(_as_text(line.get("error")), 100) or "no answer"
    return f"{error}, try {_as_count(line.get('attempt'))} of {_as_count(line.get('max_retries'))}"


def limit_retry_seconds(line: Line) -> float:
    """Return after how long a request that a limit of the vendor refused is repeated; 0: another reason refused it."""
    delay = line.get("retry_delay_ms")
    if line.get("error") != _RATE_LIMIT or not isinstance(delay, int | float):
        return 0.0
    return max(0.0, delay / 1000)


def user_line(text: str, message_id: str, *, priority: str) -> Line:
    """Build a message to the program."""
    return {
        "type": "user",
        "message": {"role": "user", "content": text},
        "parent_tool_use_id": None,
        "session_id": "",
        "uuid": message_id,
        "priority": priority,
    }


def request_line(request_id: str, request: Line) -> Line:
    """Build a request to the program."""
    return {"type": "control_request", "request_id": request_id, "request": request}


def response_line(request_id: str, response: Line) -> Line:
    """Build the response to a request of the program."""
    inner = {"subtype": "success", "request_id": request_id, "response": response}
    return {"type": "control_response", "response": inner}


def error_line(request_id: str, text: str) -> Line:
    """Build the response to a request of the program that cannot be served."""
    return {"type": "control_response", "response": {"subtype": "error", "request_id": request_id, "error": text}}


def text_delta(line: Line) -> str:
    """Return the text of a stream event; empty if it has none, or if a sub-agent wrote it."""
    delta = _as_object(_as_object(line.get("event")).get("delta"))
    is_own = line.get("parent_tool_use_id") is None
    return _as_text(delta.get("text")) if is_own and delta.get("type") == "text_delta" else ""


def content_blocks(line: Line, kind: str) -> list[Line]:
    """Return the blocks of one kind in a message."""
    content = _as_object(line.get("message")).get("content")
    return [each for each in content if _as_object(each).get("type") == kind] if isinstance(content, list) else []


def named_message_ids(line: Line) -> tuple[str, ...]:
    """Return the messages that a line of a running turn names."""
    ids = line.get("user_message_uuids")
    single = line.get("user_message_uuid")
    found = [each for each in ids if isinstance(each, str)] if isinstance(ids, list) else []
    return (*found, single) if isinstance(single, str) and single not in found else tuple(found)


def call_title(tool_input: Any) -> str:
    """Return a short line about the input of a tool."""
    fields = _as_object(tool_input)
    return next(
        (sanitize_line(fields[name], _MAX_TITLE) for name in _TITLE_FIELDS if isinstance(fields.get(name), str)), ""
    )


def read_permission(request: Line, request_id: str) -> ToolPermission:
    """Read a request of subtype `can_use_tool`."""
    tool = sanitize_line(_as_text(request.get("tool_name")), _MAX_TITLE) or "unknown"
    suggestions = request.get("permission_suggestions")
    title = _as_text(request.get("description")) or call_title(request.get("input"))
    return ToolPermission(
        request_id=_as_text(request.get("tool_use_id")) or request_id,
        tool=tool,
        title=sanitize_line(title, _MAX_TITLE),
        tool_input=request.get("input"),
        suggestions=tuple(suggestions) if isinstance(suggestions, list) else (),
    )


def read_questions(tool_input: Any) -> tuple[UserQuestion, ...]:
    """Read the input of the tool that asks the user."""
    questions = _as_object(tool_input).get("questions")
    return tuple(
        UserQuestion(
            question=_as_text(each.get("question")),
            header=_as_text(each.get("header")),
            options=_read_options(each.get("options")),
            is_multiple=each.get("multiSelect") is True,
        )
        for each in map(_as_object, questions if isinstance(questions, list) else [])
        if _as_text(each.get("question"))
    )


def _read_options(options: Any) -> tuple[QuestionOption, ...]:
    found = map(_as_object, options if isinstance(options, list) else [])
    return tuple(
        QuestionOption(label=_as_text(each.get("label")), description=_as_text(each.get("description")))
        for each in found
        if _as_text(each.get("label"))
    )


def initialize_request(server_name: str, system_prompt: str) -> Line:
    """Build the request that begins the protocol, with a hook before each call of a tool."""
    hooks = {BEFORE_TOOL: [{"matcher": "", "hookCallbackIds": [BEFORE_TOOL_ID]}]}
    request: Line = {"subtype": "initialize", "hooks": hooks, "sdkMcpServers": [server_name]}
    return {**request, "appendSystemPrompt": system_prompt} if system_prompt else request


def hook_response(denial: str) -> Line:
    """Build the response to the hook before a call: what denies it, with the reason for the model, or nothing."""
    if not denial:
        return {}
    decision = {"permissionDecision": "deny", "permissionDecisionReason": denial}
    return {"hookSpecificOutput": {"hookEventName": BEFORE_TOOL, **decision}}


def allow_response(tool_input: Any, updates: Sequence[Any] = ()) -> Line:
    """Build the response that allows a call. `updates`: what the program remembers."""
    response: Line = {"behavior": "allow", "updatedInput": tool_input}
    return {**response, "updatedPermissions": list(updates)} if updates else response


def deny_response(reason: str) -> Line:
    """Build the response that denies a call, with the reason for the model."""
    return {"behavior": "deny", "message": reason}


def answered_input(tool_input: Any, answers: Mapping[str, str]) -> Line:
    """Return the input of the tool that asks the user, with the answers."""
    return {**_as_object(tool_input), "answers": dict(answers)}


def _as_object(value: Any) -> Line:
    return value if isinstance(value, dict) else {}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _as_count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
