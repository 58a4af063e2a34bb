"""A model without a provider: rules in a file, which react to what the model sees. For demos, trials and tests.

It is told nothing beside what every model is shown: the items of the sight and the tools. What it does is a pure
function of them (docs/agent-run.md has the format). Above: opening. Below: the one door to YAML.
"""

import html
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from molecule_core.agent.engines import words
from molecule_core.agent.engines.models import (
    Finished,
    ModelEvent,
    NoModel,
    Request,
    TextDelta,
    ToolCall,
    Usage,
)
from molecule_core.agent.neutral import line
from molecule_core.agent.own_files import Unreadable, read_own
from molecule_core.agent.plain_yaml import MOST_BYTES, BadYaml, read_yaml
from molecule_core.wire.prompts import tokens_of
from molecule_core.wire.threads import SightItem

Kind = Literal["message", "result", "note"]
Who = Literal["person", "peer"]
_NAME = re.compile(r"\{([a-z_][a-z0-9_.]*)(\|slug)?\}")
_FENCE = re.compile(r"<peer_message [^>]*>(.*)</peer_message>", re.DOTALL)
_BODY = re.compile(r"<body>(.*)</body>", re.DOTALL)
_NO_SLUG = re.compile(r"[^a-z0-9]+")
_CALLS, _EVERY = "calls", "every."
_PIECE, _MOST_EACH, _MOST_SLUG = 24, 50, 64
SILENT = "I have no rule for this."


class Act(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing to do: say something, or call a tool with arguments. `{name}` stands for what a rule has found.

    `each`: once for each object of a list in a tool's last result (`tool.member`) or in all of them since the newest
    message (`every.tool.member`), or for each call of a tool since then (`calls.tool`). `where`: only those whose
    members fit these regular expressions."""

    say: str | None = None
    call: str | None = None
    each: str | None = None
    where: dict[str, str] = {}
    arguments: dict[str, Any] = field(default_factory=dict, name="with")


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do when the newest thing is of a kind and its text fits. `called`, `not_called`: tools that were called,
    or not, since the newest message; `tool`: whose result it is; `sender`: who wrote the newest message; `about`: what
    its bare words must say."""

    when: Kind = "message"
    matches: str = ""
    about: str = ""
    sender: Who | None = field(default=None, name="from")
    tool: str | None = None
    called: list[str] = []
    not_called: list[str] = []
    acts: Annotated[list[Act], Meta(min_length=1)] = field(name="do")


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules, in order: the first that fits counts."""

    rules: list[Rule]


def read_script(folder: Path, path: str) -> Script:
    """The script of a file below a folder. Raises NoModel."""
    try:
        script = msgspec.convert(read_yaml(read_own(folder, path, MOST_BYTES)), Script)
        for rule in script.rules:
            for each in (rule.matches, rule.about, *(text for act in rule.acts for text in act.where.values())):
                re.compile(each)
            if any((each.say is None) == (each.call is None) for each in rule.acts):
                raise NoModel(f"the script {line(path)!r}: each thing to do has either `say` or `call`")
    except (Unreadable, BadYaml, msgspec.ValidationError, re.error) as error:
        raise NoModel(f"the script {line(path)!r} cannot be used: {line(str(error), 300)}") from None
    return script


class ScriptedModel:
    """A `Model` that follows a script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def sample(self, request: Request) -> AsyncIterator[ModelEvent]:
        """What the script says to what is seen, piece by piece."""
        acts = react(self._script, request.items)
        made = 0
        for number, act in enumerate(acts):
            if act.say is not None:
                for start in range(0, len(act.say), _PIECE):
                    yield TextDelta(act.say[start : start + _PIECE])
                made += tokens_of(len(act.say.encode()))
            elif act.call is not None and request.may_call:
                arguments = msgspec.json.encode(act.arguments).decode()
                made += tokens_of(len(arguments))
                yield ToolCall(f"call_{len(request.items)}_{number}", act.call, arguments)
        seen = sum(each.tokens or tokens_of(len(each.text.encode())) for each in request.items)
        yield Usage(seen, made, estimated=True)
        calls = request.may_call and any(each.call is not None for each in acts)
        yield Finished("tool_calls" if calls else "stop")

    async def close(self) -> None:
        """It has no connections."""


def react(script: Script, items: Sequence[SightItem]) -> list[Act]:
    """What is done about the newest thing that is not the model's own. A note that no rule is about is passed over, and
    a rule of which nothing is left to be done does not count. Pure."""
    since = _since_message(items)
    called = [each.tool for each in since if each.role == "assistant" and each.tool is not None]
    for news in _news(items):
        for rule in script.rules:
            found = _fits(rule, news, called, since)
            if found is not None and (acts := _filled(rule, {**_facts(news, since), **found}, since)):
                return acts
    return [Act(say=SILENT)]


def _news(items: Sequence[SightItem]) -> Iterator[SightItem]:
    """The newest thing; behind notes also what they came after."""
    for each in reversed(items):
        kind = _kind(each)
        if kind is not None:
            yield each
        if kind not in (None, "note"):
            return


def _kind(item: SightItem) -> Kind | None:
    match item.role:
        case "user" | "peer":
            return "message"
        case "tool":
            return "result"
        case "developer" if item.type == "compaction":  # which says word for word what is being worked on
            return "message"
        case "developer" if item.text == words.LAYER:  # which every thread is told once, behind what it was asked
            return None
        case "developer" if item.type not in ("base", "developer", "context") and item.version is None:
            return "note"
    return None


def _since_message(items: Sequence[SightItem]) -> Sequence[SightItem]:
    """The newest message and all after it."""
    last = max((number for number, each in enumerate(items) if _kind(each) == "message"), default=0)
    return items[last:]


def _fits(rule: Rule, news: SightItem, called: Sequence[str], since: Sequence[SightItem]) -> Mapping[str, str] | None:
    """What a rule has found by its names, if it fits."""
    if rule.when != _kind(news) or not all(each in called for each in rule.called):
        return None
    if any(each in called for each in rule.not_called):
        return None
    if rule.tool is not None and rule.tool != _tool_of(news, since):
        return None
    if rule.sender is not None and rule.sender != _who(since):
        return None
    about, found = re.search(rule.about, _words(since)), re.search(rule.matches, news.text)
    if about is None or found is None:
        return None
    return {name: text or "" for name, text in (*about.groupdict().items(), *found.groupdict().items())}


def _who(since: Sequence[SightItem]) -> Who | None:
    return {"user": "person", "peer": "peer"}.get(since[0].role) if since else None  # type: ignore[return-value]


def _words(since: Sequence[SightItem]) -> str:
    """The newest message without what the platform writes around it."""
    text = since[0].text if since else ""
    for around in (_FENCE, _BODY):
        if (found := around.search(text)) is not None:
            text = html.unescape(found[1])
    return text.strip()


def _tool_of(result: SightItem, since: Sequence[SightItem]) -> str | None:
    calls = {each.call_id: each.tool for each in since if each.role == "assistant"}
    return result.tool or calls.get(result.call_id)


def _facts(news: SightItem, since: Sequence[SightItem]) -> dict[str, str]:
    """What every rule may speak of: the newest thing, the newest message, and what tools have said since."""
    results = [each for each in since if each.role == "tool"]
    by_tool = {f"result_{_tool_of(each, since)}": each.text for each in results}
    message = since[0].text if since else ""
    members = {f"{_tool_of(each, since)}.{name}": text for each in results for name, text in _plain(each).items()}
    return {
        **by_tool,
        **members,
        "text": news.text,
        "message": message,
        "said": _words(since),
        "author": (since[0].author or "") if since else "",
        "results": "\n".join(each.text for each in results),
    }


def _filled(rule: Rule, facts: Mapping[str, str], since: Sequence[SightItem]) -> list[Act]:
    """What a rule does, with all that was found; one with `each` as often as there is something."""
    found = []
    for act in rule.acts:
        for each in [{}] if act.each is None else _each(act.each, act.where, facts, since):
            known = {**facts, **each}
            say = None if act.say is None else _with(act.say, known)
            found.append(Act(say=say, call=act.call, arguments=_deep(act.arguments, known, since)))
    return found


def _each(
    path: str, where: Mapping[str, str], facts: Mapping[str, str], since: Sequence[SightItem]
) -> Iterator[Mapping[str, str]]:
    """The members of each object that is meant, by their names."""
    tool, _, member = path.removeprefix(_EVERY).partition(".")
    rows = _calls(member, since) if tool == _CALLS else _rows(tool, member, since)
    if tool != _CALLS and not path.startswith(_EVERY):
        rows = rows[-1:]
    for row in [each for one in rows for each in one][:_MOST_EACH]:
        known = {name: _as_text(value) for name, value in row.items()}
        wanted = {name: _with(text, {**facts, **known}, quoting=re.escape) for name, text in where.items()}
        if all(re.search(text, known.get(name, "")) for name, text in wanted.items()):
            yield known


def _calls(tool: str, since: Sequence[SightItem]) -> list[list[dict[str, Any]]]:
    """The calls of a tool since the newest message: their arguments, and what each gave as `result`."""
    results = {each.call_id: each.text for each in since if each.role == "tool"}
    calls = [each for each in since if each.role == "assistant" and each.tool == tool]
    given = [each.arguments if isinstance(each.arguments, dict) else {} for each in calls]
    return [[{**own, "result": results.get(each.call_id, "")}] for own, each in zip(given, calls, strict=True)]


def _rows(tool: str, member: str, since: Sequence[SightItem]) -> list[list[dict[str, Any]]]:
    """The objects of a list in each result of a tool since the newest message."""
    results = [each for each in since if each.role == "tool" and _tool_of(each, since) == tool]
    lists = [_object(each.text).get(member) for each in results]
    return [[each for each in rows if isinstance(each, dict)] for rows in lists if isinstance(rows, list)]


def _object(text: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _plain(result: SightItem) -> dict[str, str]:
    """The members of a result that are no lists or objects."""
    members = _object(result.text).items()
    return {name: _as_text(value) for name, value in members if not isinstance(value, list | dict)}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def _deep(value: Any, facts: Mapping[str, str], since: Sequence[SightItem]) -> Any:
    if isinstance(value, str):
        return _with(value, facts)
    if isinstance(value, list):
        return [made for each in value for made in _element(each, facts, since)]
    if isinstance(value, dict):
        return {name: _deep(each, facts, since) for name, each in value.items()}
    return value


def _element(value: Any, facts: Mapping[str, str], since: Sequence[SightItem]) -> list[Any]:
    """An element of a list; `{each, where, item}` stands for as many as there are."""
    if not (isinstance(value, dict) and "item" in value and isinstance(value.get("each"), str)):
        return [_deep(value, facts, since)]
    found = _each(value["each"], value.get("where") or {}, facts, since)
    return [_deep(value["item"], {**facts, **each}, since) for each in found]


def _with(text: str, facts: Mapping[str, str], *, quoting: Callable[[str], str] = str) -> str:
    """The text with what was found; a name that nothing was found for stays as it is. `{name|slug}`: as a name made of
    a-z, 0-9 and _."""

    def put(found: "re.Match[str]") -> str:
        value = facts.get(found[1])
        if value is None:
            return found[0]
        return _slug(value) if found[2] else quoting(value)

    return _NAME.sub(put, text)


def _slug(text: str) -> str:
    return _NO_SLUG.sub("_", text.lower()).strip("_")[:_MOST_SLUG] or "_"
