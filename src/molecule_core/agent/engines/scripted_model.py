"""A model without a provider: rules in a file that react to the model context. For demos, trials and tests.

It gets the same input as every model: context items and tools. Its actions are a pure function of these
(docs/how-to/agent-run.md has the format).
"""

import html
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from molecule_core.agent.engines import texts
from molecule_core.agent.engines.models import (
    ModelEvent,
    ModelRequest,
    ModelToolCall,
    ModelUnavailableError,
    ModelUsage,
    StreamEnd,
    TextDelta,
)
from molecule_core.agent.prompt.safe_files import UnreadableFileError, read_safe_file
from molecule_core.agent.prompt.safe_yaml import MAX_YAML_BYTES, InvalidYamlError, read_yaml
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.wire.schemas.prompts import estimate_tokens
from molecule_core.wire.schemas.threads import ModelContextItem

RuleKind = Literal["message", "result", "note"]
SenderKind = Literal["person", "peer"]
_NAME = re.compile(r"\{([a-z_][a-z0-9_.]*)(\|slug)?\}")
_FENCE = re.compile(r"<peer_message [^>]*>(.*)</peer_message>", re.DOTALL)
_BODY = re.compile(r"<body>(.*)</body>", re.DOTALL)
_NON_SLUG = re.compile(r"[^a-z0-9]+")
_CALLS_PREFIX, _EVERY_PREFIX = "calls", "every."
_CHUNK_LENGTH, _MAX_EACH, _MAX_SLUG = 24, 50, 64
NO_RULE_TEXT = "I have no rule for this."


class ScriptAction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action: a text, or a tool call with arguments. `{name}` is replaced by the variable of that name.

    `each`: repeat for each object of a list in a tool's last result (`tool.member`), in all its results since the
    newest message (`every.tool.member`), or for each call of a tool since then (`calls.tool`). `where`: only objects
    whose members match these regular expressions.
    """

    say: str | None = None
    call: str | None = None
    each: str | None = None
    where: dict[str, str] = {}
    arguments: dict[str, Any] = field(default_factory=dict, name="with")


class ScriptRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Actions for a newest item of a kind whose text matches.

    `called`, `not_called`: tools that were or were not called since the newest message. `tool`: whose result it is.
    `sender`: author of the newest message. `about`: regular expression for that message without its frame.
    """

    when: RuleKind = "message"
    matches: str = ""
    about: str = ""
    sender: SenderKind | None = field(default=None, name="from")
    tool: str | None = None
    called: list[str] = []
    not_called: list[str] = []
    acts: Annotated[list[ScriptAction], Meta(min_length=1)] = field(name="do")


class ModelScript(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules in order; the first match applies."""

    rules: list[ScriptRule]


def read_script(folder: Path, path: str) -> ModelScript:
    """Read the script in a file below a folder. Raises ModelUnavailableError."""
    try:
        script = msgspec.convert(read_yaml(read_safe_file(folder, path, MAX_YAML_BYTES)), ModelScript)
        for rule in script.rules:
            for each in (rule.matches, rule.about, *(text for action in rule.acts for text in action.where.values())):
                re.compile(each)
            if any((each.say is None) == (each.call is None) for each in rule.acts):
                raise ModelUnavailableError(
                    f"the script {sanitize_line(path)!r}: each action must have either `say` or `call`"
                )
    except (UnreadableFileError, InvalidYamlError, msgspec.ValidationError, re.error) as error:
        raise ModelUnavailableError(
            f"the script {sanitize_line(path)!r} cannot be used: {sanitize_line(str(error), 300)}"
        ) from None
    return script


class ScriptedModel:
    """A `Model` that follows a script."""

    def __init__(self, script: ModelScript) -> None:
        self._script = script

    async def sample(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the script's answer to the request, in pieces."""
        actions = choose_actions(self._script, request.items)
        output_tokens = 0
        for number, action in enumerate(actions):
            if action.say is not None:
                for start in range(0, len(action.say), _CHUNK_LENGTH):
                    yield TextDelta(action.say[start : start + _CHUNK_LENGTH])
                output_tokens += estimate_tokens(len(action.say.encode()))
            elif action.call is not None and request.may_call:
                arguments = msgspec.json.encode(action.arguments).decode()
                output_tokens += estimate_tokens(len(arguments))
                yield ModelToolCall(f"call_{len(request.items)}_{number}", action.call, arguments)
        input_tokens = sum(each.tokens or estimate_tokens(len(each.text.encode())) for each in request.items)
        yield ModelUsage(input_tokens, output_tokens, estimated=True)
        calls = request.may_call and any(each.call is not None for each in actions)
        yield StreamEnd("tool_calls" if calls else "stop")

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def choose_actions(script: ModelScript, items: Sequence[ModelContextItem]) -> list[ScriptAction]:
    """Choose the actions for the newest item that is not the model's own. Pure.

    Notes without a rule are skipped, and a rule without any action left does not apply.
    """
    since = _since_message(items)
    called = [each.tool for each in since if each.role == "assistant" and each.tool is not None]
    for newest in _newest_items(items):
        for rule in script.rules:
            found = _match_rule(rule, newest, called, since)
            if found is not None and (
                actions := _fill_actions(rule, {**_rule_variables(newest, since), **found}, since)
            ):
                return actions
    return [ScriptAction(say=NO_RULE_TEXT)]


def _newest_items(items: Sequence[ModelContextItem]) -> Iterator[ModelContextItem]:
    """Yield the newest item; if it is a note, also the items before it up to the first that is none."""
    for each in reversed(items):
        kind = _item_kind(each)
        if kind is not None:
            yield each
        if kind not in (None, "note"):
            return


def _item_kind(item: ModelContextItem) -> RuleKind | None:
    match item.role:
        case "user" | "peer":
            return "message"
        case "tool":
            return "result"
        case "developer" if (
            item.text == texts.ENGINE_INSTRUCTIONS
        ):  # sent once to every thread, after its first message
            return None
        case "developer" if item.type not in ("base", "developer", "context") and item.version is None:
            return "note"
    return None


def _since_message(items: Sequence[ModelContextItem]) -> Sequence[ModelContextItem]:
    """Return the newest message and all items after it."""
    start = max((number for number, each in enumerate(items) if _item_kind(each) == "message"), default=0)
    return items[start:]


def _match_rule(
    rule: ScriptRule, newest: ModelContextItem, called: Sequence[str], since: Sequence[ModelContextItem]
) -> Mapping[str, str] | None:
    """Return the named groups of a matching rule; None if it does not match."""
    if rule.when != _item_kind(newest) or not all(each in called for each in rule.called):
        return None
    if any(each in called for each in rule.not_called):
        return None
    if rule.tool is not None and rule.tool != _tool_of(newest, since):
        return None
    if rule.sender is not None and rule.sender != _sender_kind(since):
        return None
    about, found = re.search(rule.about, _message_text(since)), re.search(rule.matches, newest.text)
    if about is None or found is None:
        return None
    return {name: text or "" for name, text in (*about.groupdict().items(), *found.groupdict().items())}


def _sender_kind(since: Sequence[ModelContextItem]) -> SenderKind | None:
    return {"user": "person", "peer": "peer"}.get(since[0].role) if since else None  # type: ignore[return-value]


def _message_text(since: Sequence[ModelContextItem]) -> str:
    """Return the newest message without the platform's frame."""
    text = since[0].text if since else ""
    for pattern in (_FENCE, _BODY):
        if (found := pattern.search(text)) is not None:
            text = html.unescape(found[1])
    return text.strip()


def _tool_of(result: ModelContextItem, since: Sequence[ModelContextItem]) -> str | None:
    calls = {each.call_id: each.tool for each in since if each.role == "assistant"}
    return result.tool or calls.get(result.call_id)


def _rule_variables(newest: ModelContextItem, since: Sequence[ModelContextItem]) -> dict[str, str]:
    """Return the variables of every rule: the newest item, the newest message, and tool results since."""
    results = [each for each in since if each.role == "tool"]
    by_tool = {f"result_{_tool_of(each, since)}": each.text for each in results}
    message = since[0].text if since else ""
    members = {
        f"{_tool_of(each, since)}.{name}": text for each in results for name, text in _scalar_members(each).items()
    }
    return {
        **by_tool,
        **members,
        "text": newest.text,
        "message": message,
        "said": _message_text(since),
        "author": (since[0].author or "") if since else "",
        "results": "\n".join(each.text for each in results),
    }


def _fill_actions(
    rule: ScriptRule, variables: Mapping[str, str], since: Sequence[ModelContextItem]
) -> list[ScriptAction]:
    """Return a rule's actions with all variables filled in; one with `each` is repeated."""
    found = []
    for action in rule.acts:
        for each in [{}] if action.each is None else _expand_each(action.each, action.where, variables, since):
            known = {**variables, **each}
            say = None if action.say is None else _fill_text(action.say, known)
            found.append(ScriptAction(say=say, call=action.call, arguments=_fill_value(action.arguments, known, since)))
    return found


def _expand_each(
    path: str, where: Mapping[str, str], variables: Mapping[str, str], since: Sequence[ModelContextItem]
) -> Iterator[Mapping[str, str]]:
    """Yield the members of each selected object by name."""
    tool, _, member = path.removeprefix(_EVERY_PREFIX).partition(".")
    rows = _calls_of(member, since) if tool == _CALLS_PREFIX else _rows_of(tool, member, since)
    if tool != _CALLS_PREFIX and not path.startswith(_EVERY_PREFIX):
        rows = rows[-1:]
    for row in [each for one in rows for each in one][:_MAX_EACH]:
        known = {name: _as_text(value) for name, value in row.items()}
        patterns = {name: _fill_text(text, {**variables, **known}, quoting=re.escape) for name, text in where.items()}
        if all(re.search(text, known.get(name, "")) for name, text in patterns.items()):
            yield known


def _calls_of(tool: str, since: Sequence[ModelContextItem]) -> list[list[dict[str, Any]]]:
    """Return the calls of a tool since the newest message: the arguments, and the output as `result`."""
    results = {each.call_id: each.text for each in since if each.role == "tool"}
    calls = [each for each in since if each.role == "assistant" and each.tool == tool]
    arguments = [each.arguments if isinstance(each.arguments, dict) else {} for each in calls]
    return [
        [{**call_arguments, "result": results.get(each.call_id, "")}]
        for call_arguments, each in zip(arguments, calls, strict=True)
    ]


def _rows_of(tool: str, member: str, since: Sequence[ModelContextItem]) -> list[list[dict[str, Any]]]:
    """Return the objects of a list in each result of a tool since the newest message."""
    results = [each for each in since if each.role == "tool" and _tool_of(each, since) == tool]
    lists = [_parse_object(each.text).get(member) for each in results]
    return [[each for each in rows if isinstance(each, dict)] for rows in lists if isinstance(rows, list)]


def _parse_object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _scalar_members(result: ModelContextItem) -> dict[str, str]:
    """Return the members of a result that are neither lists nor objects."""
    members = _parse_object(result.text).items()
    return {name: _as_text(value) for name, value in members if not isinstance(value, list | dict)}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def _fill_value(value: Any, variables: Mapping[str, str], since: Sequence[ModelContextItem]) -> Any:
    if isinstance(value, str):
        return _fill_text(value, variables)
    if isinstance(value, list):
        return [element for each in value for element in _fill_element(each, variables, since)]
    if isinstance(value, dict):
        return {name: _fill_value(each, variables, since) for name, each in value.items()}
    return value


def _fill_element(value: Any, variables: Mapping[str, str], since: Sequence[ModelContextItem]) -> list[Any]:
    """Fill an element of a list; `{each, where, item}` is repeated for each object."""
    if not (isinstance(value, dict) and "item" in value and isinstance(value.get("each"), str)):
        return [_fill_value(value, variables, since)]
    found = _expand_each(value["each"], value.get("where") or {}, variables, since)
    return [_fill_value(value["item"], {**variables, **each}, since) for each in found]


def _fill_text(text: str, variables: Mapping[str, str], *, quoting: Callable[[str], str] = str) -> str:
    """Replace the variables in a text; unknown names stay. `{name|slug}`: converted to a-z, 0-9 and _."""

    def replace_name(found: "re.Match[str]") -> str:
        value = variables.get(found[1])
        if value is None:
            return found[0]
        return _slugify(value) if found[2] else quoting(value)

    return _NAME.sub(replace_name, text)


def _slugify(text: str) -> str:
    return _NON_SLUG.sub("_", text.lower()).strip("_")[:_MAX_SLUG] or "_"
