"""Our entry in a host's configuration, among whatever else stands there: a text in, a text out. Pure.

Above: client/host_files.py, cli. Below: wire/hosts.py (what is to be said), jsonc and toml_text (how it is written).
"""

import shlex
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from molecule_core.client import jsonc, toml_text
from molecule_core.client.jsonc import NotJson
from molecule_core.client.toml_text import NotToml
from molecule_core.wire.hosts import OWN_VARIABLES, Host, Seat, entry, entry_of_seat, environment_name, seats_in

NOT_READ = (NotJson, NotToml)
"""What is raised where a text cannot be edited; it is then left alone."""
HOOK_EVENTS = ("SessionStart", "UserPromptSubmit")
HOOK_VERB = "inbox-hook"
_HOOK_SECONDS = 10
# What a person may have set otherwise than we would, and then means.
_LEFT_ALONE = ("alwaysLoad", "default_tools_approval_mode", "required", "startup_timeout_sec")
_ABSENT = object()


def _writer(language: str) -> ModuleType:
    return toml_text if language == "toml" else jsonc


def with_seat(host: Host, text: str, command: Sequence[str], seat: Seat) -> str:
    """The configuration with a seat in our entry, beside those that it holds already. Said twice it is said once.

    Raises NotJson, NotToml."""
    has = _found(_writer(host.language).value_of(text), host.place)
    wanted = entry(host, command, [*_other_seats(host, has, seat.workspace_id), entry_of_seat(seat)])
    return _with_entry(host, text, has, wanted)


def without_seat(host: Host, text: str, command: Sequence[str], workspace_id: str) -> str:
    """The configuration without a seat; the entry goes with its last one. Raises NotJson, NotToml."""
    has = _found(_writer(host.language).value_of(text), host.place)
    if not isinstance(has, dict):
        return text
    left = _other_seats(host, has, workspace_id)
    if not left:
        return str(_writer(host.language).without(text, host.place))
    return _with_entry(host, text, has, entry(host, command, left))


def seats_of(host: Host, text: str) -> list[dict[str, Any]]:
    """The seats that a host's configuration carries. Raises NotJson, NotToml."""
    has = _found(_writer(host.language).value_of(text), host.place)
    told = has.get(environment_name(host)) if isinstance(has, dict) else None
    return seats_in(told) if isinstance(told, dict) else []


def _other_seats(host: Host, has: object, workspace_id: str) -> list[dict[str, Any]]:
    told = has.get(environment_name(host)) if isinstance(has, dict) else None
    return [each for each in seats_in(told if isinstance(told, dict) else {}) if each["id"] != workspace_id]


def _with_entry(host: Host, text: str, has: object, wanted: Mapping[str, Any]) -> str:
    """Member by member, so that comments and what a person added to the entry stay."""
    writer, place = _writer(host.language), host.place
    if not isinstance(has, dict):
        return str(writer.set_value(text, place, dict(wanted)))
    for name, value in wanted.items():
        told = has.get(name)
        if name == environment_name(host) and isinstance(told, dict):
            text = _with_variables(writer, text, (*place, name), told, value)
        elif told != value and not (name in _LEFT_ALONE and name in has):
            text = writer.set_value(text, (*place, name), value)
    return text


def _with_variables(
    writer: ModuleType, text: str, place: tuple[str, ...], has: Mapping[str, Any], wanted: Mapping[str, str]
) -> str:
    for name, value in wanted.items():
        if has.get(name) != value:
            text = writer.set_value(text, (*place, name), value)
    for name in OWN_VARIABLES:
        if name in has and name not in wanted:
            text = writer.without(text, (*place, name))
    return text


def _found(value: Any, path: Sequence[str | int]) -> Any:
    """What stands at a path; None if nothing does."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


# -- hooks of Claude Code ----------------------------------------------------------------------------------------------


def hook_command(python: str, config: str) -> str:
    """What the hooks run: it reads from the host's own configuration which seats there are."""
    return shlex.join([python, "-m", "molecule_core", HOOK_VERB, "--config", config])


def with_hooks(text: str, command: str) -> str:
    """Settings with our hook at each of its events, beside those of others. Raises NotJson."""
    for event in HOOK_EVENTS:
        groups = _found(jsonc.value_of(text), ("hooks", event))
        groups = groups if isinstance(groups, list) else []
        own = _own_hook(groups)
        if own is None:
            made = {"hooks": [{"type": "command", "command": command, "timeout": _HOOK_SECONDS}]}
            text = jsonc.set_value(text, ("hooks", event, len(groups)), made)
        elif _found(groups, (*own, "command")) != command:
            text = jsonc.set_value(text, ("hooks", event, *own, "command"), command)
    return text


def without_hooks(text: str) -> str:
    """Settings without our hooks, and without what would be empty then. Raises NotJson."""
    for event in HOOK_EVENTS:
        while (own := _own_hook(_found(jsonc.value_of(text), ("hooks", event)) or [])) is not None:
            text = _emptied(text, ("hooks", event, *own), 1)
    return text


def _emptied(text: str, path: tuple[str | int, ...], keep: int) -> str:
    """Without what a path names, and without all above it that would hold nothing then."""
    text = jsonc.without(text, path)
    while len(path) > keep and _found(jsonc.value_of(text), path[:-1]) in ([], {}, {"hooks": []}):
        path = path[:-1]
        text = jsonc.without(text, path)
    return text


def _own_hook(groups: Any) -> tuple[int, str, int] | None:
    """Where among the groups of an event our hook stands."""
    for place, group in enumerate(groups if isinstance(groups, list) else []):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for number, hook in enumerate(hooks if isinstance(hooks, list) else []):
            said = hook.get("command") if isinstance(hook, dict) else None
            if isinstance(said, str) and f" molecule_core {HOOK_VERB} " in said:
                return place, "hooks", number
    return None
