"""Edits our entry in a host's configuration text and keeps everything else. Pure.

Called by cli through client/config_files.py; calls tools/host_config.py (the entry) and the text editors jsonc_edit and
toml_edit.
"""

import shlex
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from molecule_core.client import jsonc_edit, toml_edit
from molecule_core.client.jsonc_edit import JsonEditError
from molecule_core.client.toml_edit import TomlEditError
from molecule_core.tools.host_config import (
    OWN_VARIABLES,
    Host,
    HostWorkspace,
    environment_member,
    server_entry,
    workspace_entries,
    workspace_entry,
)

EDIT_ERRORS = (JsonEditError, TomlEditError)
"""Raised if a text cannot be edited; it then stays unchanged."""
HOOK_EVENTS = ("SessionStart", "UserPromptSubmit")
HOOK_COMMAND = "inbox-hook"
_HOOK_SECONDS = 10
# Members that a person may have set deliberately.
_PRESERVED_MEMBERS = ("alwaysLoad", "default_tools_approval_mode", "required", "startup_timeout_sec")
_ABSENT = object()


def _editor(language: str) -> ModuleType:
    return toml_edit if language == "toml" else jsonc_edit


def add_workspace(host: Host, text: str, command: Sequence[str], workspace: HostWorkspace) -> str:
    """Add a workspace to our entry, or replace it there.

    Raises JsonEditError, TomlEditError."""
    existing = _value_at(_editor(host.language).value_of(text), host.entry_path)
    wanted = server_entry(
        host, command, [*_other_workspaces(host, existing, workspace.workspace_id), workspace_entry(workspace)]
    )
    return _set_entry(host, text, existing, wanted)


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


# -- hooks of Claude Code ----------------------------------------------------------------------------------------------


def hook_command(python: str, config: str) -> str:
    """Return the command of the hooks; it reads the workspaces from the host's configuration."""
    return shlex.join([python, "-m", "molecule_core", HOOK_COMMAND, "--config", config])


def add_hooks(text: str, command: str) -> str:
    """Add our hook to each of its events. Raises JsonEditError."""
    for event in HOOK_EVENTS:
        groups = _value_at(jsonc_edit.value_of(text), ("hooks", event))
        groups = groups if isinstance(groups, list) else []
        own = _find_own_hook(groups)
        if own is None:
            group = {"hooks": [{"type": "command", "command": command, "timeout": _HOOK_SECONDS}]}
            text = jsonc_edit.set_value(text, ("hooks", event, len(groups)), group)
        elif _value_at(groups, (*own, "command")) != command:
            text = jsonc_edit.set_value(text, ("hooks", event, *own, "command"), command)
    return text


def remove_hooks(text: str) -> str:
    """Remove our hooks, and the containers that become empty. Raises JsonEditError."""
    for event in HOOK_EVENTS:
        while (own := _find_own_hook(_value_at(jsonc_edit.value_of(text), ("hooks", event)) or [])) is not None:
            text = _remove_and_prune(text, ("hooks", event, *own), 1)
    return text


def _remove_and_prune(text: str, path: tuple[str | int, ...], keep: int) -> str:
    """Remove the value at a path, and the containers above it that become empty."""
    text = jsonc_edit.without(text, path)
    while len(path) > keep and _value_at(jsonc_edit.value_of(text), path[:-1]) in ([], {}, {"hooks": []}):
        path = path[:-1]
        text = jsonc_edit.without(text, path)
    return text


def _find_own_hook(groups: Any) -> tuple[int, str, int] | None:
    """Return the path of our hook within the groups of an event; None if it is missing."""
    for position, group in enumerate(groups if isinstance(groups, list) else []):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for number, hook in enumerate(hooks if isinstance(hooks, list) else []):
            command = hook.get("command") if isinstance(hook, dict) else None
            if isinstance(command, str) and f" molecule_core {HOOK_COMMAND} " in command:
                return position, "hooks", number
    return None
