"""Renders the configuration of each host of agents. Used by `molecule connect`, the server's connect page and the
canvas.

Called by cli, api and client/host_config_edit.py. Reads no files, and no text contains a secret.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

SERVER_ENTRY = "molecule"
"""The name of our server in every host, which prefixes the names of its tools."""
SINGLE_WORKSPACE_VARIABLES = (
    "WORKSPACE_ID",
    "MOLECULE_WORKSPACE_TOKEN",
    "MOLECULE_WORKSPACE_TOKEN_FILE",
    "PLATFORM_URL",
)
WORKSPACES_VARIABLE = "MOLECULE_WORKSPACES"
OWN_VARIABLES = (*SINGLE_WORKSPACE_VARIABLES, WORKSPACES_VARIABLE)
"""The variables that we set in a host's configuration, and therefore remove again."""
PATH_COMMAND = ("molecule", "mcp")
"""The command for a configuration on another machine, found by its PATH."""

SnippetLanguage = Literal["json", "toml", "python", "sh"]


class Host(Struct, frozen=True):
    """A program that hosts agents.

    `runtime`: the runtime of workspaces for it. `file`: path of its configuration as people write it; empty: it has
    none. `entry_path`: position of our entry in that file."""

    name: str
    title: str
    runtime: str
    language: SnippetLanguage
    file: str = ""
    entry_path: tuple[str, ...] = ()
    note: str = ""


HOSTS: tuple[Host, ...] = (
    Host(
        "claude-code",
        "Claude Code",
        "claude-code",
        "json",
        ".mcp.json",
        ("mcpServers", SERVER_ENTRY),
        "Start it in that folder; it asks once whether to trust the project's servers.",
    ),
    Host(
        "codex",
        "Codex",
        "codex",
        "toml",
        "~/.codex/config.toml",
        ("mcp_servers", SERVER_ENTRY),
        "Codex reads it when a session starts.",
    ),
    Host(
        "cursor",
        "Cursor",
        "cursor",
        "json",
        "~/.cursor/mcp.json",
        ("mcpServers", SERVER_ENTRY),
        "Switch the server on in its settings, under MCP.",
    ),
    Host(
        "gemini",
        "Gemini CLI",
        "gemini-cli",
        "json",
        "~/.gemini/settings.json",
        ("mcpServers", SERVER_ENTRY),
        "It reads the file when it starts; /mcp shows the server.",
    ),
    Host(
        "opencode",
        "opencode",
        "opencode",
        "json",
        "~/.config/opencode/opencode.json",
        ("mcp", SERVER_ENTRY),
        "It reads the file when it starts.",
    ),
    Host(
        "cline",
        "Cline",
        "cline",
        "json",
        "~/.cline/data/settings/cline_mcp_settings.json",
        ("mcpServers", SERVER_ENTRY),
        "In VS Code the file opens under MCP Servers, Configure.",
    ),
    Host("langchain", "LangChain", "langchain", "python"),
    Host("curl", "curl", "generic-mcp", "sh"),
)
HOST_NAMES = tuple(host.name for host in HOSTS)


def find_host(name: str) -> Host | None:
    """Return the host of this name, or None."""
    return next((host for host in HOSTS if host.name == name), None)


class HostWorkspace(Struct, frozen=True):
    """A workspace that a host connects as. `token_file` holds only its token."""

    workspace_id: str
    platform_url: str
    token_file: str


def workspace_entry(workspace: HostWorkspace) -> dict[str, str]:
    """Return the workspace as an entry of MOLECULE_WORKSPACES."""
    return {"id": workspace.workspace_id, "token_file": workspace.token_file, "platform_url": workspace.platform_url}


def environment_for(workspaces: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the environment of `molecule mcp` for these workspace entries.

    One workspace uses the single variables, several use the list. An inline token, as people write it, is kept."""
    if len(workspaces) != 1:
        return {WORKSPACES_VARIABLE: json.dumps(list(workspaces))}
    (workspace,) = workspaces
    token_names = (
        ("MOLECULE_WORKSPACE_TOKEN_FILE", "token_file")
        if "token_file" in workspace
        else (SINGLE_WORKSPACE_VARIABLES[1], "token")
    )
    variables = {
        "WORKSPACE_ID": workspace["id"],
        token_names[0]: workspace.get(token_names[1]),
        "PLATFORM_URL": workspace.get("platform_url"),
    }
    return {name: str(value) for name, value in variables.items() if value is not None}


def workspace_entries(environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the workspace entries in an environment of `molecule mcp`; none if it cannot be read."""
    if WORKSPACES_VARIABLE in environment:
        try:
            listed = json.loads(str(environment[WORKSPACES_VARIABLE]))
        except ValueError:
            return []
        return [each for each in listed if isinstance(each, dict) and "id" in each] if isinstance(listed, list) else []
    if "WORKSPACE_ID" not in environment:
        return []
    variables = {
        "id": "WORKSPACE_ID",
        "token": SINGLE_WORKSPACE_VARIABLES[1],
        "token_file": SINGLE_WORKSPACE_VARIABLES[2],
        "platform_url": "PLATFORM_URL",
    }
    return [{name: environment[variable] for name, variable in variables.items() if variable in environment}]


def server_entry(host: Host, command: Sequence[str], workspaces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entry of our server in the host's configuration, which starts `molecule mcp` for these workspaces."""
    program, *arguments = command
    environment = environment_for(workspaces)
    if host.name == "opencode":
        return {"type": "local", "command": list(command), "enabled": True, "environment": environment}
    common = {"command": program, "args": arguments, "env": environment}
    if host.name == "claude-code":
        # alwaysLoad: without it, Claude Code starts its first turn without servers that need more than a second or two,
        # and hides most tools behind a search.
        return {"type": "stdio", **common, "alwaysLoad": True}
    if host.name == "cursor":
        return {"type": "stdio", **common}
    if host.name == "codex":
        # Without these, Codex rejects tools that change something when no person can be asked, and starts a turn
        # without servers that need more than a second or two. Either would silence the agent.
        settings = {"required": True, "startup_timeout_sec": 30, "default_tools_approval_mode": "approve"}
        return {"command": program, "args": arguments, **settings, "env": environment}
    return common


def environment_member(host: Host) -> str:
    """Return the member of an entry that holds the environment."""
    return "environment" if host.name == "opencode" else "env"


# -- rendering ---------------------------------------------------------------------------------------------------------


def render_configuration(host: Host, command: Sequence[str], workspaces: Sequence[Mapping[str, Any]]) -> str:
    """Render the complete configuration for a host that has nothing else configured, ready to paste."""
    if host.name == "langchain":
        return _langchain_snippet(workspaces)
    if host.name == "curl":
        return _curl_snippet(workspaces[-1])
    entry = server_entry(host, command, workspaces)
    if host.language == "toml":
        return toml_table(host.entry_path, entry)
    configuration: Any = entry
    for name in reversed(host.entry_path):
        configuration = {name: configuration}
    return json.dumps(configuration, indent=2, ensure_ascii=False) + "\n"


def add_server_command(host: Host, command: Sequence[str], workspaces: Sequence[Mapping[str, Any]]) -> str:
    """Return the host's own command that adds our entry, or an empty string if it has none. It contains no secret."""
    if host.name != "claude-code":
        return ""
    entry = json.dumps(server_entry(host, command, workspaces), ensure_ascii=False)
    return f"claude mcp add-json {SERVER_ENTRY} {shlex.quote(entry)}"


def toml_table(path: Sequence[str], members: Mapping[str, Any]) -> str:
    """Render a table with its plain members first and its subtables after them."""
    lines = [f"[{'.'.join(map(toml_key, path))}]"]
    lines += [f"{toml_key(name)} = {toml_value(each)}" for name, each in members.items() if not isinstance(each, dict)]
    text = "\n".join(lines) + "\n"
    subtables = [(name, each) for name, each in members.items() if isinstance(each, dict)]
    return text + "".join("\n" + toml_table((*path, name), each) for name, each in subtables)


def toml_key(name: str) -> str:
    """Render a TOML key."""
    bare = name != "" and name.isascii() and all(c.isalnum() or c in "_-" for c in name)
    return name if bare else toml_value(name)


def toml_value(value: Any) -> str:
    """Render a TOML value: a string, a number, a list or an inline table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON and TOML escapes are equal except for this character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        members = ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {members} }}" if members else "{}"
    return str(value)


def _langchain_snippet(workspaces: Sequence[Mapping[str, Any]]) -> str:
    environment = environment_for(workspaces)
    lines = "".join(f"os.environ[{json.dumps(name)}] = {json.dumps(value)}\n" for name, value in environment.items())
    return (
        "# pip install 'molecule-core[langchain]'\n"
        "import os\n\n"
        f"{lines}\n"
        "from molecule_core.langchain import tools\n\n"
        "molecule_tools = tools()  # real LangChain tools: give them to your agent with its own\n"
    )


def _curl_snippet(workspace: Mapping[str, Any]) -> str:
    """Render one request per line.

    The token goes from its file through a pipe, since process arguments are readable by other users."""
    id_, token_file = workspace["id"], str(workspace["token_file"])
    file = f'"$HOME/{token_file[2:]}"' if token_file.startswith("~/") else shlex.quote(token_file)
    base = shlex.quote(str(workspace["platform_url"]))
    own = f"{base}/workspaces/{id_}"
    register = json.dumps({"id": id_, "delivery_mode": "poll", "agent_card": {"name": "curl"}})
    heartbeat = json.dumps({"workspace_id": id_})
    notice = json.dumps({"message": "I am here."})
    return (
        "ask() { printf 'header = \"Authorization: Bearer %s\"\\n' "
        f'"$(cat {file})" | curl -sS -K - "$@"; echo; }}\n'
        f"ask {base}/registry/register -d {shlex.quote(register)}   # take the seat\n"
        f"ask {base}/registry/heartbeat -d {shlex.quote(heartbeat)}   # be there: again every 30 s\n"
        f"ask {own}/activity'?claim=60&wait=25'   # wait for a message; it is yours for 60 s\n"
        f"ask {own}/notify -d {shlex.quote(notice)}   # answer the person\n"
        f"# then say that it is handled: ask {own}/activity/ack -d "
        '\'{"activity_id": "ITS ID", "attempt": 1}\'\n'
    )


# -- connect page ------------------------------------------------------------------------------------------------------


class ConnectStep(Struct, frozen=True):
    """A step: its title, the text to paste, and the language of that text."""

    title: str
    text: str
    language: str
    hint: str = ""


class HostRow(Struct, frozen=True):
    """A host to choose."""

    name: str
    title: str
    runtime: str


class ConnectPage(Struct, frozen=True):
    """How to connect one host to one workspace: by one command, or by manual steps. Contains no token."""

    host: str
    title: str
    workspace_id: str
    quick: ConnectStep | None
    by_hand: list[ConnectStep]


def host_rows() -> list[HostRow]:
    """Return all hosts to choose from."""
    return [HostRow(host.name, host.title, host.runtime) for host in HOSTS]


def connect_page(host: Host, workspace_id: str, platform_url: str) -> ConnectPage:
    """Build the page for a host on another machine. Only requires that `molecule` is on its PATH."""
    workspace = HostWorkspace(workspace_id, platform_url, f"~/.molecule/agents/{workspace_id}.token")
    return ConnectPage(
        host.name,
        host.title,
        workspace_id,
        _quick_step(host, workspace),
        [_token_step(workspace), _paste_step(host, workspace)],
    )


def connect_command(host: Host, workspace: HostWorkspace) -> str:
    """Return the command that connects the host.

    It prompts for the token, so that no secret appears in a process list."""
    server = shlex.quote(workspace.platform_url)
    return f"molecule connect {host.name} --workspace {workspace.workspace_id} --server {server} --own-token --apply"


def _quick_step(host: Host, workspace: HostWorkspace) -> ConnectStep | None:
    if not host.entry_path:
        return None
    return ConnectStep(
        f"On the agent's machine, where `molecule` is installed, for {host.title}",
        connect_command(host, workspace),
        "sh",
        f"It asks for the token, keeps it in a file of its own, writes {host.file} (with a backup beside it), and "
        "waits until the agent is seen. A host that has a seat already keeps it. `--undo` takes it back.",
    )


def _token_step(workspace: HostWorkspace) -> ConnectStep:
    return ConnectStep(
        "Keep the token in a file that only you can read",
        f"mkdir -p ~/.molecule/agents && (umask 077; cat > {workspace.token_file})",
        "sh",
        "Then paste the token, press Enter, and Ctrl-D.",
    )


def _paste_step(host: Host, workspace: HostWorkspace) -> ConnectStep:
    text = render_configuration(host, PATH_COMMAND, [workspace_entry(workspace)])
    if not host.file:
        title = "Lines for your program" if host.language == "python" else "Ask by hand"
        return ConnectStep(title, text, host.language)
    return ConnectStep(f"Put this into {host.file}, beside what stands there", text, host.language, host.note)
