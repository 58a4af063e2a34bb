"""Edits our entry in a host's configuration text and keeps everything else. Pure.

Called by cli through client/config_files.py; calls tools/host_config.py (the entry) and the text editors jsonc_edit and
toml_edit.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from molecule_core.client import jsonc_edit, toml_edit
from molecule_core.client.jsonc_edit import JsonEditError
from molecule_core.client.toml_edit import TomlEditError
from molecule_core.tools.host_config import (
    OWN_VARIABLES,
    REMOTE_MEMBERS,
    SERVER_ENTRY,
    Host,
    HostWorkspace,
    environment_member,
    server_entry,
    workspace_entries,
    workspace_entry,
)

EDIT_ERRORS = (JsonEditError, TomlEditError)
"""Raised if a text cannot be edited; it then stays unchanged."""
INBOX_COMMAND, HOST_COMMAND = "inbox-hook", "host-hook"
_HOOK_SECONDS = 10
# A prompt and an idle session wait for people. Timers of hosts count milliseconds in 31 bits.
_WAIT_SECONDS = 14 * 86_400
# Members that a person may have set deliberately.
_PRESERVED_MEMBERS = ("alwaysLoad", "default_tools_approval_mode", "required", "startup_timeout_sec", "trust")
# The launcher, quoted or not, or a Python with our module.
_OWN_HOOK = re.compile(rf"molecule(_core)?'? ({INBOX_COMMAND} --config .*|{HOST_COMMAND}( --wait)?)$", re.DOTALL)
_ALLOWED_TOOLS = f"mcp__{SERVER_ENTRY}"
_ENABLED_SERVERS = "enabledMcpjsonServers"


def check_host_grammar(host: Host, text: str) -> None:
    """Check that the host itself can read the text of a JSON configuration. Raises JsonEditError."""
    if host.language == "json":
        jsonc_edit.value_of(text)
        jsonc_edit.check_grammar(text, **msgspec.structs.asdict(host.grammar))


def _editor(language: str) -> ModuleType:
    return toml_edit if language == "toml" else jsonc_edit


def add_workspace(host: Host, text: str, command: Sequence[str], workspace: HostWorkspace) -> str:
    """Add a workspace to our entry, or replace it there.

    Raises JsonEditError, TomlEditError, also if the host cannot read the text as it is."""
    check_host_grammar(host, text)
    existing = _value_at(_editor(host.language).value_of(text), host.entry_path)
    wanted = server_entry(
        host, command, [*_other_workspaces(host, existing, workspace.workspace_id), workspace_entry(workspace)]
    )
    return _set_entry(host, text, existing, wanted)


def set_remote_entry(host: Host, text: str, entry: Mapping[str, Any]) -> str:
    """Replace our entry by one that reaches the server by its address.

    Raises JsonEditError, TomlEditError, also if the host cannot read the text as it is."""
    check_host_grammar(host, text)
    editor = _editor(host.language)
    existing = _value_at(editor.value_of(text), host.entry_path)
    return text if existing == entry else str(editor.set_value(text, host.entry_path, dict(entry)))


def remove_workspace(host: Host, text: str, command: Sequence[str], workspace_id: str) -> str:
    """Remove a workspace; the entry is removed with its last one. Raises JsonEditError, TomlEditError."""
    existing = _value_at(_editor(host.language).value_of(text), host.entry_path)
    if not isinstance(existing, dict):
        return text
    remaining = _other_workspaces(host, existing, workspace_id)
    if not remaining:
        return str(_editor(host.language).without(text, host.entry_path))
    return _set_entry(host, text, existing, server_entry(host, command, remaining))


def configured_workspaces(host: Host, text: str) -> list[dict[str, Any]]:
    """Return the workspaces of a host's configuration. Raises JsonEditError, TomlEditError."""
    existing = _value_at(_editor(host.language).value_of(text), host.entry_path)
    current = existing.get(environment_member(host)) if isinstance(existing, dict) else None
    return workspace_entries(current) if isinstance(current, dict) else []


def _other_workspaces(host: Host, existing: object, workspace_id: str) -> list[dict[str, Any]]:
    current = existing.get(environment_member(host)) if isinstance(existing, dict) else None
    return [
        each for each in workspace_entries(current if isinstance(current, dict) else {}) if each["id"] != workspace_id
    ]


def _set_entry(host: Host, text: str, existing: object, wanted: Mapping[str, Any]) -> str:
    """Set members one by one, so that comments and a person's additions stay."""
    editor, position = _editor(host.language), host.entry_path
    if not isinstance(existing, dict):
        return str(editor.set_value(text, position, dict(wanted)))
    for name in existing:
        if name not in wanted and name in REMOTE_MEMBERS:
            text = editor.without(text, (*position, name))
    for name, value in wanted.items():
        current = existing.get(name)
        if name == environment_member(host) and isinstance(current, dict):
            text = _set_variables(editor, text, (*position, name), current, value)
        elif current != value and not (name in _PRESERVED_MEMBERS and name in existing):
            text = editor.set_value(text, (*position, name), value)
    return text


def _set_variables(
    editor: ModuleType, text: str, position: tuple[str, ...], existing: Mapping[str, Any], wanted: Mapping[str, str]
) -> str:
    for name, value in wanted.items():
        if existing.get(name) != value:
            text = editor.set_value(text, (*position, name), value)
    for name in OWN_VARIABLES:
        if name in existing and name not in wanted:
            text = editor.without(text, (*position, name))
    return text


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path; None if there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def update_command(host: Host, text: str, command: Sequence[str]) -> str:
    """Replace the command of our entry if an earlier version of Molecule wrote it; others are a person's own.

    Raises JsonEditError, TomlEditError."""
    existing = _value_at(_editor(host.language).value_of(text), host.entry_path)
    if not isinstance(existing, dict) or not is_own_command(_command_words(existing)):
        return text
    wanted = server_entry(host, command, [])
    for name in ("command", "args"):
        if name in wanted and existing.get(name) != wanted[name]:
            text = _editor(host.language).set_value(text, (*host.entry_path, name), wanted[name])
    return text


def _command_words(entry: Mapping[str, Any]) -> list[Any]:
    command, arguments = entry.get("command"), entry.get("args")
    words = command if isinstance(command, list) else [command]
    return words + arguments if isinstance(arguments, list) else words


def is_own_command(words: Sequence[Any]) -> bool:
    """Return whether an earlier version of `molecule connect` wrote this command, with the path of its Python."""
    return list(words[-3:]) == ["-m", "molecule_core", "mcp"]


# -- hooks of Claude Code ----------------------------------------------------------------------------------------------


class Hook(NamedTuple):
    """One of our hooks: its event, the words after `molecule`, and its members beside the command."""

    event: str
    words: tuple[str, ...]
    members: Mapping[str, Any]


def own_hooks(config: str) -> list[Hook]:
    """Return our hooks; those about waiting messages read the workspaces from the host's configuration `config`."""
    inbox, host, wait = (INBOX_COMMAND, "--config", config), (HOST_COMMAND,), (HOST_COMMAND, "--wait")
    quick, patient = {"timeout": _HOOK_SECONDS}, {"timeout": _WAIT_SECONDS}
    # asyncRewake: runs beside the session, and wakes it when it ends with exit code 2.
    waking = {"asyncRewake": True, **patient}
    return [
        Hook("SessionStart", inbox, quick),
        Hook("SessionStart", wait, waking),
        Hook("UserPromptSubmit", host, {"async": True, **quick}),
        Hook("PermissionRequest", host, patient),
        Hook("PostToolUse", host, {"async": True, **quick}),
        Hook("Stop", host, quick),
        Hook("Stop", wait, waking),
    ]


def update_hooks(text: str, program: Sequence[str]) -> str:
    """Replace the program of our hooks where they are, and keep their options. Raises JsonEditError."""
    for event in dict.fromkeys(each.event for each in own_hooks("")):
        groups = _value_at(jsonc_edit.value_of(text), ("hooks", event))
        for own in _find_own_hooks(groups):
            current = _value_at(groups, (*own, "command"))
            found = _OWN_HOOK.search(current)
            wanted = shlex.join(program) + " " + found[2] if found is not None else current
            if current != wanted:
                text = jsonc_edit.set_value(text, ("hooks", event, *own, "command"), wanted)
    return text


def add_hooks(text: str, program: Sequence[str], config: str) -> str:
    """Add our hooks to their events, and remove those of an earlier version that are not needed. Raises JsonEditError.

    `program`: the words that start `molecule`."""
    wanted = own_hooks(config)
    for event in dict.fromkeys(each.event for each in wanted):
        hooks = [each for each in wanted if each.event == event]
        while unneeded := _find_unneeded(_value_at(jsonc_edit.value_of(text), ("hooks", event)), hooks):
            text = _remove_and_prune(text, ("hooks", event, *unneeded[0]), 1)
    for hook in wanted:
        command = shlex.join([*program, *hook.words])
        groups = _value_at(jsonc_edit.value_of(text), ("hooks", hook.event))
        groups = groups if isinstance(groups, list) else []
        own = next((each for each in _find_own_hooks(groups) if _is_same_hook(groups, each, hook)), None)
        if own is None:
            group = {"hooks": [{"type": "command", "command": command, **hook.members}]}
            text = jsonc_edit.set_value(text, ("hooks", hook.event, len(groups)), group)
        elif _value_at(groups, (*own, "command")) != command:
            text = jsonc_edit.set_value(text, ("hooks", hook.event, *own, "command"), command)
    return text


def remove_hooks(text: str) -> str:
    """Remove our hooks, and the containers that become empty. Raises JsonEditError."""
    for event in dict.fromkeys(each.event for each in own_hooks("")):
        while own := _find_own_hooks(_value_at(jsonc_edit.value_of(text), ("hooks", event)) or []):
            text = _remove_and_prune(text, ("hooks", event, *own[0]), 1)
    return text


def _remove_and_prune(text: str, path: tuple[str | int, ...], keep: int) -> str:
    """Remove the value at a path, and the containers above it that become empty."""
    text = jsonc_edit.without(text, path)
    while len(path) > keep and _value_at(jsonc_edit.value_of(text), path[:-1]) in ([], {}, {"hooks": []}):
        path = path[:-1]
        text = jsonc_edit.without(text, path)
    return text


def _find_own_hooks(groups: Any) -> list[tuple[int, str, int]]:
    """Return the paths of our hooks within the groups of an event."""
    found = []
    for position, group in enumerate(groups if isinstance(groups, list) else []):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for number, hook in enumerate(hooks if isinstance(hooks, list) else []):
            command = hook.get("command") if isinstance(hook, dict) else None
            if isinstance(command, str) and _OWN_HOOK.search(command):
                found.append((position, "hooks", number))
    return found


def _find_unneeded(groups: Any, hooks: Sequence[Hook]) -> list[tuple[int, str, int]]:
    own = _find_own_hooks(groups)
    return [each for each in own if not any(_is_same_hook(groups, each, hook) for hook in hooks)]


def _is_same_hook(groups: Any, path: tuple[int, str, int], hook: Hook) -> bool:
    """Return whether our hook at a path is this one, whatever its program and configuration."""
    words = shlex.split(_value_at(groups, (*path, "command")))
    own = words[words.index(hook.words[0]) :] if hook.words[0] in words else []
    return len(own) == len(hook.words) and own[:2] == list(hook.words[:2])


# -- permissions of Claude Code ----------------------------------------------------------------------------------------


def add_permissions(text: str, *, is_project: bool) -> str:
    """Allow our tools without a person, and enable our server of a project's file. Raises JsonEditError."""
    text = _add_item(text, ("permissions", "allow"), _ALLOWED_TOOLS)
    return _add_item(text, (_ENABLED_SERVERS,), SERVER_ENTRY) if is_project else text


def remove_permissions(text: str) -> str:
    """Remove what `add_permissions` adds, and the containers that become empty. Raises JsonEditError."""
    for path, item in ((("permissions", "allow"), _ALLOWED_TOOLS), ((_ENABLED_SERVERS,), SERVER_ENTRY)):
        items = _value_at(jsonc_edit.value_of(text), path)
        if isinstance(items, list) and item in items:
            text = _remove_and_prune(text, (*path, items.index(item)), 1)
    return text


def _add_item(text: str, path: tuple[str, ...], item: str) -> str:
    """Append an item to a list, unless it is in it."""
    items = _value_at(jsonc_edit.value_of(text), path)
    if isinstance(items, list) and item in items:
        return text
    return jsonc_edit.set_value(text, (*path, len(items) if isinstance(items, list) else 0), item)
