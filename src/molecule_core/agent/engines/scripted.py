"""A model without a provider: rules in a file, which react to what the model sees. For demos, trials and tests.

It is told nothing beside what every model is shown: the items of the sight and the tools. What it does is a pure
function of them (docs/agent-run.md has the format). Above: opening. Below: the one door to YAML.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
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
_NAME = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_PIECE = 24
SILENT = "I have no rule for this."


class Act(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing to do: say something, or call a tool with arguments. `{name}` stands for what a rule has found."""

    say: str | None = None
    call: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict, name="with")


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do when the newest thing is of a kind and its text fits. `called`, `not_called`: tools that were called,
    or not, since the newest message; `tool`: whose result it is."""

    when: Kind = "message"
    matches: str = ""
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
            re.compile(rule.matches)
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
    """What is done about the newest thing that is not the model's own. Pure."""
    news = next((each for each in reversed(items) if _kind(each) is not None), None)
    if news is None:
        return [Act(say=SILENT)]
    since = _since_message(items)
    called = [each.tool for each in since if each.role == "assistant" and each.tool is not None]
    for rule in script.rules:
        found = _fits(rule, news, called, since)
        if found is not None:
            return [_filled(act, {**_facts(news, since), **found}) for act in rule.acts]
    return [Act(say=SILENT)]


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
    found = re.search(rule.matches, news.text)
    return None if found is None else {name: text or "" for name, text in found.groupdict().items()}


def _tool_of(result: SightItem, since: Sequence[SightItem]) -> str | None:
    calls = {each.call_id: each.tool for each in since if each.role == "assistant"}
    return result.tool or calls.get(result.call_id)


def _facts(news: SightItem, since: Sequence[SightItem]) -> dict[str, str]:
    """What every rule may speak of: the newest thing, the newest message, and what tools have said since."""
    results = [each for each in since if each.role == "tool"]
    by_tool = {f"result_{_tool_of(each, since)}": each.text for each in results}
    message = since[0].text if since else ""
    return {
        **by_tool,
        "text": news.text,
        "message": message,
        "author": (since[0].author or "") if since else "",
        "results": "\n".join(each.text for each in results),
    }


def _filled(act: Act, facts: Mapping[str, str]) -> Act:
    return Act(
        say=None if act.say is None else _with(act.say, facts),
        call=act.call,
        arguments=_deep(act.arguments, facts),
    )


def _deep(value: Any, facts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _with(value, facts)
    if isinstance(value, list):
        return [_deep(each, facts) for each in value]
    if isinstance(value, dict):
        return {name: _deep(each, facts) for name, each in value.items()}
    return value


def _with(text: str, facts: Mapping[str, str]) -> str:
    """The text with what was found; a name that nothing was found for stays as it is."""
    return _NAME.sub(lambda found: facts.get(found[1], found[0]), text)
