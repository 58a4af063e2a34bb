"""Renders the configuration of each host of agents. Used by `molecule connect`, the server's connect page and the
canvas.

Called by cli, api and client/host_config_edit.py. Reads no files, and no text contains a secret.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from molecule_core.common.extras import install_advice

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


class JsonGrammar(Struct, frozen=True):
    """What a host accepts in a JSON file beyond the standard."""

    comments: bool = False
    trailing_commas: bool = False
    byte_order_mark: bool = False


class Host(Struct, frozen=True):
    """A program that hosts agents.

    `runtime`: the runtime of workspaces for it. `file`: path of its configuration as people write it; empty: it has
    none. `entry_path`: position of our entry in that file. `program`: its command, if it lists its servers with
    `mcp list`."""

    name: str
    title: str
    runtime: str
    language: SnippetLanguage
    file: str = ""
    entry_path: tuple[str, ...] = ()
    note: str = ""
    grammar: JsonGrammar = JsonGrammar()
    program: str = ""


CLAUDE_CODE = Host(
    "claude-code",
    "Claude Code",
    "claude-code",
    "json",
    ".mcp.json",
    ("mcpServers", SERVER_ENTRY),
    "If Claude Code asks whether you trust the folder, choose Yes: until then it does not start the MCP servers of a "
    "project.",
    JsonGrammar(byte_order_mark=True),
    "claude",
)

HOSTS: tuple[Host, ...] = (
    CLAUDE_CODE,
    Host(
        "codex",
        "Codex",
        "codex",
        "toml",
        "~/.codex/config.toml",
        ("mcp_servers", SERVER_ENTRY),
        "Codex reads the file when a session starts.",
        program="codex",
    ),
    Host(
        "cursor",
        "Cursor",
        "cursor",
        "json",
        "~/.cursor/mcp.json",
        ("mcpServers", SERVER_ENTRY),
        "Enable the server in the settings of Cursor, under MCP.",
        JsonGrammar(comments=True, trailing_commas=True, byte_order_mark=True),
    ),
    Host(
        "gemini",
        "Gemini CLI",
        "gemini-cli",
        "json",
        "~/.gemini/settings.json",
        ("mcpServers", SERVER_ENTRY),
        "Gemini CLI reads the file at startup. If it asks whether you trust the folder, choose Trust folder: until "
        "then it does not start MCP servers.",
        JsonGrammar(comments=True),
        "gemini",
    ),
    Host(
        "opencode",
        "opencode",
        "opencode",
        "json",
        "~/.config/opencode/opencode.json",
        ("mcp", SERVER_ENTRY),
        "opencode reads the file at startup. Start it as `opencode --port N` (N: a free port), so that `molecule mcp` "
        "can wake it.",
        JsonGrammar(comments=True, trailing_commas=True, byte_order_mark=True),
        "opencode",
    ),
    Host(
        "cline",
        "Cline",
        "cline",
        "json",
        "~/.cline/data/settings/cline_mcp_settings.json",
        ("mcpServers", SERVER_ENTRY),
        "In VS Code, the file opens under MCP Servers > Configure.",
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
    if host.name == "gemini":
        # Without it, Gemini CLI asks a person before each call, and rejects the call if there is none.
        return {**common, "trust": True}
    return common


def remote_entry(host: Host, address: str) -> dict[str, Any] | None:
    """Return the entry that reaches the server's MCP endpoint by its address, without a process on this machine.

    The host reads the token of the workspace from the environment. None: the host cannot do that."""
    url, variable = f"{address.rstrip('/')}/mcp", SINGLE_WORKSPACE_VARIABLES[1]
    headers = {"Authorization": f"Bearer ${{{variable}}}"}
    if host.name == "claude-code":
        return {"type": "http", "url": url, "headers": headers, "alwaysLoad": True}
    if host.name == "codex":
        return {"url": url, "bearer_token_env_var": variable, "default_tools_approval_mode": "approve"}
    if host.name == "cursor":
        return {"url": url, "headers": {"Authorization": f"Bearer ${{env:{variable}}}"}}
    if host.name == "gemini":
        return {"httpUrl": url, "headers": headers, "trust": True}
    if host.name == "opencode":
        own = {"Authorization": f"Bearer {{env:{variable}}}"}
        return {"type": "remote", "url": url, "enabled": True, "headers": own}
    return None


REMOTE_MEMBERS = (
    *("url", "httpUrl", "serverUrl", "tcp", "headers", "authProviderType", "oauth"),
    *("bearer_token", "bearer_token_env_var", "http_headers", "env_http_headers", "auth", "oauth_resource"),
    *("type", "transportType"),
)
"""Members of servers that are reached by an address. Beside a command, Codex rejects its whole configuration for them,
and Gemini CLI uses the address."""


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
    return render_entry(host, server_entry(host, command, workspaces))


def render_entry(host: Host, entry: Mapping[str, Any]) -> str:
    """Render a configuration that has only an entry of our server."""
    if host.language == "toml":
        return toml_table(host.entry_path, entry)
    configuration: Any = dict(entry)
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
        f"# {install_advice('langchain')}\n"
        "import os\n\n"
        f"{lines}\n"
        "from molecule_core.langchain import tools\n\n"
        "molecule_tools = tools()  # LangChain tools: pass them to your agent with its own tools\n"
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
        f"ask {base}/registry/register -d {shlex.quote(register)}   # register the workspace\n"
        f"ask {base}/registry/heartbeat -d {shlex.quote(heartbeat)}   # heartbeat: repeat every 30 s\n"
        f"ask {own}/activity'?claim=60&wait=25'   # wait for a message and claim it for 60 s\n"
        f"ask {own}/notify -d {shlex.quote(notice)}   # answer the person\n"
        f"# then acknowledge the message: ask {own}/activity/ack -d "
        '\'{"activity_id": "ACTIVITY_ID", "attempt": 1}\'\n'
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
        f"Connect {host.title}: run this on the agent's machine, where `molecule` is installed",
        connect_command(host, workspace),
        "sh",
        f"The command asks for the token and stores it in a separate file. It writes {host.file}, keeps a backup, "
        "and waits until the agent connects. A host that already has a workspace keeps it. `--undo` reverts the "
        "change.",
    )


def _token_step(workspace: HostWorkspace) -> ConnectStep:
    return ConnectStep(
        "Store the token in a file that only you can read",
        f"mkdir -p ~/.molecule/agents && (umask 077; cat > {workspace.token_file})",
        "sh",
        "Then paste the token, press Enter, then Ctrl-D.",
    )


def _paste_step(host: Host, workspace: HostWorkspace) -> ConnectStep:
    text = render_configuration(host, PATH_COMMAND, [workspace_entry(workspace)])
    if not host.file:
        title = "Code for your program" if host.language == "python" else "Requests with curl"
        return ConnectStep(title, text, host.language)
    return ConnectStep(f"Add this to {host.file} and keep its other entries", text, host.language, host.note)
