"""What the vendors refuse: the checks that Anthropic's Messages API and OpenAI's chat completions make on a request.

Each check returns the vendor's reason, or None. Sources: the SDKs' own parameter types for the known members, and the
errors of the two APIs (also of servers that speak like OpenAI's: their chat templates want a user message).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from anthropic.types import message_create_params as anthropic_params
from openai.types.chat import completion_create_params as openai_params

_ANTHROPIC = {*get_type_hints(anthropic_params.MessageCreateParamsBase), "stream"}
_OPENAI = {*get_type_hints(openai_params.CompletionCreateParamsBase), "stream"}
_ANTHROPIC_BLOCKS = {
    "text": {"text", "cache_control", "citations"},
    "thinking": {"thinking", "signature"},
    "tool_use": {"id", "name", "input", "cache_control"},
    "tool_result": {"tool_use_id", "content", "is_error", "cache_control"},
    "image": {"source", "cache_control"},
    "document": {"source", "cache_control", "title", "context", "citations"},
}
_OPENAI_MESSAGES = {
    "system": {"content", "name"},
    "developer": {"content", "name"},
    "user": {"content", "name"},
    "assistant": {"content", "name", "tool_calls", "refusal", "audio"},
    "tool": {"content", "tool_call_id"},
}


def refusal_of(path: str, body: Mapping[str, Any]) -> str | None:
    """Return why the vendor whose path this is refuses the request."""
    rules = anthropic_refusals if path.endswith("/messages") else openai_refusals
    return next(rules(body), None)


def anthropic_refusals(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what Anthropic's Messages API refuses."""
    yield from (f"{name}: Extra inputs are not permitted" for name in body if name not in _ANTHROPIC)
    yield from (f"{name}: Field required" for name in ("model", "messages", "max_tokens") if name not in body)
    messages = body["messages"]
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    if messages[-1]["role"] != "user":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    if "system" in body and not _has_words(body["system"]):
        yield "system: text content blocks must be non-empty"
    if not body.get("tools") and any(each["type"] in ("tool_use", "tool_result") for each in _blocks(messages)):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    if "tool_choice" in body and not body.get("tools"):
        yield "tool_choice: may only be specified while providing tools"
    for number, each in enumerate(messages):
        yield from _anthropic_message(f"messages.{number}", each)
    yield from _anthropic_calls(messages)


def _anthropic_message(where: str, message: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        f"{where}.{name}: Extra inputs are not permitted" for name in message if name not in ("role", "content")
    )
    if message["role"] not in ("user", "assistant"):
        yield f'messages: Unexpected role "{message["role"]}"'
    if not message["content"]:
        yield f"{where}: all messages must have non-empty content"
    for each in _blocks_of(message):
        unknown = set(each) - {"type"} - _ANTHROPIC_BLOCKS.get(each["type"], set())
        if each["type"] not in _ANTHROPIC_BLOCKS or unknown:
            yield f"{where}.content: Extra inputs are not permitted: {each['type']} {unknown}"
        if each["type"] == "text" and not each["text"].strip():
            yield f"{where}: text content blocks must contain non-whitespace text"


def _anthropic_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each `tool_use` is answered in the next message, at its beginning, and each `tool_result` answers one."""
    known: set[str] = set()
    for number, message in enumerate(_merged(messages)):
        blocks = list(_blocks_of(message))
        results = [each["tool_use_id"] for each in blocks if each["type"] == "tool_result"]
        for each in results:
            if each not in known:
                yield f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {each}"
        for each in known - set(results):
            yield f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {each}"
        if results and any(each["type"] != "tool_result" for each in blocks[: len(results)]):
            yield f"messages.{number}: `tool_result` blocks must come first"
        if len(results) != len(set(results)):
            yield f"messages.{number}: each tool_use must have a single result"
        names = [each["id"] for each in blocks if each["type"] == "tool_use"]
        if len(names) != len(set(names)):
            yield f"messages.{number}: `tool_use` ids must be unique"
        known = set(names)
    yield from (f"`tool_use` ids were found without `tool_result` blocks: {each}" for each in known)


def _merged(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages of one role in a row are one: Anthropic combines them."""
    found: list[dict[str, Any]] = []
    for each in messages:
        if found and found[-1]["role"] == each["role"]:
            found[-1]["content"] = [*found[-1]["content"], *_blocks_of(each)]
        else:
            found.append({"role": each["role"], "content": list(_blocks_of(each))})
    return found


def _blocks(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for each in messages:
        yield from _blocks_of(each)


def _blocks_of(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = message["content"]
    yield from [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _has_words(content: Any) -> bool:
    texts = [content] if isinstance(content, str) else [each.get("text", "") for each in content]
    return all(each.strip() for each in texts) and bool(texts)


def openai_refusals(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield what OpenAI's chat completions refuse, and what the chat templates of compatible servers refuse."""
    yield from (f"Unrecognized request argument supplied: {name}" for name in body if name not in _OPENAI)
    messages = body["messages"]
    if not messages:
        yield "[] is too short - 'messages'"
    if not any(each["role"] == "user" for each in messages):
        yield "No user query found in messages."
    if not body.get("tools") and ("tool_choice" in body or body.get("tools") == []):
        yield "'tool_choice' is only allowed when 'tools' are specified."
    is_start, open_calls = True, set[str]()
    for number, each in enumerate(messages):
        role, where = each["role"], f"messages.[{number}]"
        is_start = is_start and role in ("system", "developer")
        if role not in _OPENAI_MESSAGES or set(each) - {"role"} - _OPENAI_MESSAGES[role]:
            yield f"Additional properties are not allowed - {where}: {role} {sorted(each)}"
        if role == "system" and not is_start:
            yield "System message must be at the beginning."
        if each.get("content") is None and not each.get("tool_calls"):
            yield f"Invalid value for 'content': expected a string, got null - {where}"
        if role == "tool" and each["tool_call_id"] not in open_calls:
            yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
        if role != "tool" and open_calls:
            yield f"'tool_calls' must be followed by tool messages responding to each 'tool_call_id': {open_calls}"
        open_calls = open_calls - {each.get("tool_call_id")} | {call["id"] for call in each.get("tool_calls") or ()}
    yield from (f"no response to the call {each}" for each in open_calls)
