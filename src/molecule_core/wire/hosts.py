"""How each host of agents is told of Molecule: facts in, text out. The one source of what `molecule connect`, the
server's page for it and the canvas say.

Above: cli, edges, client/host_config.py. Below: nothing; no file is read here, and no secret stands in any text.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

ENTRY = "molecule"
"""The name of our server in every host; tools are called after it."""
SINGLE = ("WORKSPACE_ID", "MOLECULE_WORKSPACE_TOKEN", "MOLECULE_WORKSPACE_TOKEN_FILE", "PLATFORM_URL")
SEVERAL = "MOLECULE_WORKSPACES"
OWN_VARIABLES = (*SINGLE, SEVERAL)
"""What we set in a host's configuration, and therefore also take away again."""
ANYWHERE_COMMAND = ("molecule", "mcp")
"""For a configuration that is read on another machine: the command, found by its PATH."""

Language = Literal["json", "toml", "python", "sh"]


class Host(Struct, frozen=True):
    """A program that agents live in. `runtime`: what a seat for it is called. `file`: where its configuration lives, as
    people write it; empty: it has none. `place`: where in it our entry stands."""

    name: str
    title: str
    runtime: str
    language: Language
    file: str = ""
    place: tuple[str, ...] = ()
    note: str = ""


HOSTS: tuple[Host, ...] = (
    Host(
        "claude-code",
        "Claude Code",
        "claude-code",
        "json",
        ".mcp.json",
        ("mcpServers", ENTRY),
        "Start it in that folder; it asks once whether to trust the project's servers.",
    ),
    Host(
        "codex",
        "Codex",
        "codex",
        "toml",
        "~/.codex/config.toml",
        ("mcp_servers", ENTRY),
        "Codex reads it when a session starts.",
    ),
    Host(
        "cursor",
        "Cursor",
        "cursor",
        "json",
        "~/.cursor/mcp.json",
        ("mcpServers", ENTRY),
        "Switch the server on in its settings, under MCP.",
    ),
    Host(
        "gemini",
        "Gemini CLI",
        "gemini-cli",
        "json",
        "~/.gemini/settings.json",
        ("mcpServers", ENTRY),
        "It reads the file when it starts; /mcp shows the server.",
    ),
    Host(
        "opencode",
        "opencode",
        "opencode",
        "json",
        "~/.config/opencode/opencode.json",
        ("mcp", ENTRY),
        "It reads the file when it starts.",
    ),
    Host(
        "cline",
        "Cline",
        "cline",
        "json",
        "~/.cline/data/settings/cline_mcp_settings.json",
        ("mcpServers", ENTRY),
        "In VS Code the file opens under MCP Servers, Configure.",
    ),
    Host("langchain", "LangChain", "langchain", "python"),
    Host("curl", "curl", "generic-mcp", "sh"),
)
NAMES = tuple(host.name for host in HOSTS)


def host_of(name: str) -> Host | None:
    """The host of this name."""
    return next((host for host in HOSTS if host.name == name), None)


class Seat(Struct, frozen=True):
    """A workspace that a host takes part as. `token_file` holds its token, and nothing else."""

    workspace_id: str
    platform_url: str
    token_file: str


def entry_of_seat(seat: Seat) -> dict[str, str]:
    """A seat as the list of seats holds it."""
    return {"id": seat.workspace_id, "token_file": seat.token_file, "platform_url": seat.platform_url}


def variables(seats: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The environment of `molecule mcp` for these seats (entries of the list): one by its own names, several as the
    list. A seat that holds its token itself, as people write it by hand, keeps it."""
    if len(seats) != 1:
        return {SEVERAL: json.dumps(list(seats))}
    (seat,) = seats
    token = ("MOLECULE_WORKSPACE_TOKEN_FILE", "token_file") if "token_file" in seat else (SINGLE[1], "token")
    found = {"WORKSPACE_ID": seat["id"], token[0]: seat.get(token[1]), "PLATFORM_URL": seat.get("platform_url")}
    return {name: str(value) for name, value in found.items() if value is not None}


def seats_in(environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The seats that an environment of `molecule mcp` names, as entries of the list; what cannot be read names none."""
    if SEVERAL in environment:
        try:
            listed = json.loads(str(environment[SEVERAL]))
        except ValueError:
            return []
        return [each for each in listed if isinstance(each, dict) and "id" in each] if isinstance(listed, list) else []
    if "WORKSPACE_ID" not in environment:
        return []
    names = {"id": "WORKSPACE_ID", "token": SINGLE[1], "token_file": SINGLE[2], "platform_url": "PLATFORM_URL"}
    return [{name: environment[variable] for name, variable in names.items() if variable in environment}]


def entry(host: Host, command: Sequence[str], seats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What stands at the host's place: how it starts `molecule mcp` for these seats."""
    program, *arguments = command
    told = variables(seats)
    if host.name == "opencode":
        return {"type": "local", "command": list(command), "enabled": True, "environment": told}
    common = {"command": program, "args": arguments, "env": told}
    if host.name == "claude-code":
        # Claude Code begins its first turn without servers that are not ready within a second or two, and hides most
        # tools behind a search; told so, it does neither.
        return {"type": "stdio", **common, "alwaysLoad": True}
    if host.name == "cursor":
        return {"type": "stdio", **common}
    if host.name == "codex":
        # Codex refuses tools that act when nobody can be asked, and begins a turn without servers that are not ready
        # within a second or two: both would make the agent fall silent.
        codex = {"required": True, "startup_timeout_sec": 30, "default_tools_approval_mode": "approve"}
        return {"command": program, "args": arguments, **codex, "env": told}
    return common


def environment_name(host: Host) -> str:
    """The member of an entry that holds the environment."""
    return "environment" if host.name == "opencode" else "env"


# -- as text -----------------------------------------------------------------------------------------------------------


def configuration(host: Host, command: Sequence[str], seats: Sequence[Mapping[str, Any]]) -> str:
    """The whole text for a host that has nothing else configured, with these seats (entries of the list): what a person
    pastes, and a test starts."""
    if host.name == "langchain":
        return _langchain(seats)
    if host.name == "curl":
        return _curl(seats[-1])
    made = entry(host, command, seats)
    if host.language == "toml":
        return toml_table(host.place, made)
    whole: Any = made
    for name in reversed(host.place):
        whole = {name: whole}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def own_command(host: Host, command: Sequence[str], seats: Sequence[Mapping[str, Any]]) -> str:
    """The line by which the host writes our entry itself, where it has one; no secret is in it."""
    if host.name != "claude-code":
        return ""
    made = json.dumps(entry(host, command, seats), ensure_ascii=False)
    return f"claude mcp add-json {ENTRY} {shlex.quote(made)}"


def toml_table(place: Sequence[str], members: Mapping[str, Any]) -> str:
    """A table with its plain members first, and tables below it behind them."""
    lines = [f"[{'.'.join(map(toml_key, place))}]"]
    lines += [f"{toml_key(name)} = {toml_value(each)}" for name, each in members.items() if not isinstance(each, dict)]
    text = "\n".join(lines) + "\n"
    below = [(name, each) for name, each in members.items() if isinstance(each, dict)]
    return text + "".join("\n" + toml_table((*place, name), each) for name, each in below)


def toml_key(name: str) -> str:
    """A key as TOML writes it."""
    bare = name != "" and name.isascii() and all(c.isalnum() or c in "_-" for c in name)
    return name if bare else toml_value(name)


def toml_value(value: Any) -> str:
    """A value as TOML writes it: a text, a number, a list, or a table in one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON escapes as TOML does, but for one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return str(value)


def _langchain(seats: Sequence[Mapping[str, Any]]) -> str:
    told = variables(seats)
    lines = "".join(f"os.environ[{json.dumps(name)}] = {json.dumps(value)}\n" for name, value in told.items())
    return (
        "# pip install 'molecule-core[langchain]'\n"
        "import os\n\n"
        f"{lines}\n"
        "from molecule_core.langchain import tools\n\n"
        "molecule_tools = tools()  # real LangChain tools: give them to your agent with its own\n"
    )


def _curl(seat: Mapping[str, Any]) -> str:
    """One question a line. The token comes from its file through a pipe: process arguments are readable by others."""
    id_, named = seat["id"], str(seat["token_file"])
    file = f'"$HOME/{named[2:]}"' if named.startswith("~/") else shlex.quote(named)
    base = shlex.quote(str(seat["platform_url"]))
    own = f"{base}/workspaces/{id_}"
    register = json.dumps({"id": id_, "delivery_mode": "poll", "agent_card": {"name": "curl"}})
    beat = json.dumps({"workspace_id": id_})
    words = json.dumps({"message": "I am here."})
    return (
        "ask() { printf 'header = \"Authorization: Bearer %s\"\\n' "
        f'"$(cat {file})" | curl -sS -K - "$@"; echo; }}\n'
        f"ask {base}/registry/register -d {shlex.quote(register)}   # take the seat\n"
        f"ask {base}/registry/heartbeat -d {shlex.quote(beat)}   # be there: again every 30 s\n"
        f"ask {own}/activity'?claim=60&wait=25'   # wait for a message; it is yours for 60 s\n"
        f"ask {own}/notify -d {shlex.quote(words)}   # answer the person\n"
        f"# then say that it is handled: ask {own}/activity/ack -d "
        '\'{"activity_id": "ITS ID", "attempt": 1}\'\n'
    )


# -- the page ----------------------------------------------------------------------------------------------------------


class ConnectStep(Struct, frozen=True):
    """Something to do: what, the text to paste, and what that text is (a program, or the content of a file)."""

    title: str
    text: str
    language: str
    hint: str = ""


class HostRow(Struct, frozen=True):
    """A host that one can choose."""

    name: str
    title: str
    runtime: str


class ConnectPage(Struct, frozen=True):
    """How one host is connected to one workspace: by one command, or by hand. No token stands in it."""

    host: str
    title: str
    workspace_id: str
    quick: ConnectStep | None
    by_hand: list[ConnectStep]


def rows() -> list[HostRow]:
    """All hosts that one can choose."""
    return [HostRow(host.name, host.title, host.runtime) for host in HOSTS]


def page(host: Host, workspace_id: str, platform_url: str) -> ConnectPage:
    """How to connect a host on another machine, of which nothing is known but that `molecule` is on its PATH."""
    seat = Seat(workspace_id, platform_url, f"~/.molecule/agents/{workspace_id}.token")
    return ConnectPage(host.name, host.title, workspace_id, _quick(host, seat), [_keep_token(seat), _paste(host, seat)])


def connect_command(host: Host, seat: Seat) -> str:
    """The line that does it all; it asks for the token, so that no secret stands in a list of processes."""
    server = shlex.quote(seat.platform_url)
    return f"molecule connect {host.name} --workspace {seat.workspace_id} --server {server} --own-token --apply"


def _quick(host: Host, seat: Seat) -> ConnectStep | None:
    if not host.place:
        return None
    return ConnectStep(
        f"On the agent's machine, where `molecule` is installed, for {host.title}",
        connect_command(host, seat),
        "sh",
        f"It asks for the token, keeps it in a file of its own, writes {host.file} (with a backup beside it), and "
        "waits until the agent is seen. A host that has a seat already keeps it. `--undo` takes it back.",
    )


def _keep_token(seat: Seat) -> ConnectStep:
    return ConnectStep(
        "Keep the token in a file that only you can read",
        f"mkdir -p ~/.molecule/agents && (umask 077; cat > {seat.token_file})",
        "sh",
        "Then paste the token, press Enter, and Ctrl-D.",
    )


def _paste(host: Host, seat: Seat) -> ConnectStep:
    text = configuration(host, ANYWHERE_COMMAND, [entry_of_seat(seat)])
    if not host.file:
        title = "Lines for your program" if host.language == "python" else "Ask by hand"
        return ConnectStep(title, text, host.language)
    return ConnectStep(f"Put this into {host.file}, beside what stands there", text, host.language, host.note)
