# ruff: noqa: E501 (lines of Markdown tables)
"""Reference pages made from the code: command line, HTTP API, configuration. `scripts/docs` writes them."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import click
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from molecule_core import cli
from molecule_core.access.model import CredentialKind
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.engines.settings import RunConfig
from molecule_core.agent.runner.settings import RunnerSettings
from molecule_core.api.query_parameters import QueryParameter
from molecule_core.api.routing import Route, WorkspaceScope
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server

# -- command line ------------------------------------------------------------------------------------------------------


def cli_page() -> Iterator[str]:
    """Yield the lines of docs/reference/cli.md."""
    yield "# Command line\n"
    yield "Every command of `molecule`, as `--help` prints it. This page is made by `scripts/docs`.\n"
    yield "Operator commands (`serve`, `up`, `backup`, `approvals`, …) act on this machine's server with its admin token;"
    yield "agent commands (`tool`, `reply`, `delegate`, …) act as the workspace that the environment names"
    yield "([configuration](configuration.md#agent-process)).\n"
    yield "| command | what it does |"
    yield "|---|---|"
    for name, (summary, _) in cli.COMMANDS.items():
        yield f"| [`{name}`](#molecule-{name}) | {summary} |"
    yield ""
    for name in cli.COMMANDS:
        command = cli.COMMANDS[name][1]()
        yield from _command_lines(command, f"molecule {name}", level=2)


def _command_lines(command: click.Command, name: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child is not None and not child.hidden:
                yield from _command_lines(child, f"{name} {each}", level=min(level + 1, 4))


# -- HTTP --------------------------------------------------------------------------------------------------------------

_SCOPES = {
    WorkspaceScope.NONE: "workspace",
    WorkspaceScope.OWN: "the workspace itself",
    WorkspaceScope.TALK: "workspaces that may talk to it",
}

_TOPICS = {
    "Chain": "Chains",
    "Approval": "Approvals",
    "Delegation": "Delegations",
    "File": "Files",
    "Mcp": "MCP",
    "Message": "Messages",
    "Org": "Organisations",
    "Instruction": "Instruction templates",
    "Registry": "Agent registry",
    "Reply": "Replies",
    "Thread": "Threads",
    "Token": "Tokens",
    "Workspace": "Workspaces",
    "Engine": "Thread engines",
    "Prompt": "Prompts",
    "Session": "Sessions",
    "Live": "Live channels",
    "DelegationReport": "Delegation reports",
    "PreviewRenderer": "Instruction templates",
    "Delivery": "Delivery",
}


def http_page() -> Iterator[str]:
    """Yield the lines of docs/reference/http.md."""
    server = Server(Settings(state_dir="/nonexistent"), admin_token="a" * 64)
    routes = sorted(server.routes.routes, key=_topic)  # stable: within a topic as they are declared
    yield "# HTTP API\n"
    yield "Every route, from the table that the server dispatches by. A running server prints it as OpenAPI 3.1, with all"
    yield "schemas: `GET /openapi.json`. Refusals are listed in [errors](errors.md), limits in [limits](limits.md). This page"
    yield "is made by `scripts/docs`.\n"
    yield "Send `Authorization: Bearer TOKEN`. *Callers* are the credentials that a route accepts; a person needs at least the"
    yield "role in parentheses (viewer < operator < owner).\n"
    topic = ""
    for route in routes:
        if _topic(route) != topic:
            topic = _topic(route)
            yield f"## {topic}\n"
        yield from _route_lines(route)


def _topic(route: Route) -> str:
    """Return the name of the class that handles a route, as a heading."""
    owner = type(getattr(route.handler, "__self__", None)).__name__.removesuffix("Routes")
    if owner == "NoneType":  # handlers made by a function
        owner = "AgentDocs" if route.path.startswith("/agent-docs") else "Collaboration"
    return _TOPICS.get(owner) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", owner).capitalize()


def _route_lines(route: Route) -> Iterator[str]:
    about = " ".join((route.handler.__doc__ or route.summary).split())
    yield f"### {route.method} {route.path}\n"
    yield f"{about.rstrip('.')}.\n"
    yield f"* Callers: {_callers(route)}. Answer: {_answer(route)}."
    body = [*_body_members(route)]
    if body:
        yield f"* Body{' (optional)' if route.body_optional else ''}: {', '.join(body)}."
    if route.streams_body:
        yield "* Body: multipart/form-data, each file in a field `files`."
    for parameter in route.query.values():
        yield f"* `?{parameter.name}` ({_parameter_type(parameter)}): {' '.join(parameter.description.split())}"
    yield ""


def _callers(route: Route) -> str:
    access = route.access
    if not access.kinds:
        return "everyone, without a credential"
    names = []
    if CredentialKind.PERSON in access.kinds:
        names.append(f"person ({access.role.name.lower()})")
    if CredentialKind.WORKSPACE in access.kinds:
        names.append(_SCOPES[access.scope])
    if CredentialKind.ADMIN in access.kinds:
        names.append("admin")
    return ", ".join(names)


def _answer(route: Route) -> str:
    status = f"{route.status}" + (" or 202" if route.may_accept else "")
    if route.response is None:
        return status
    name = getattr(route.response, "__name__", None) or str(route.response)
    return f"{status} with `{re.sub(r'[a-z_]+[.]', '', name)}`"


def _parameter_type(parameter: QueryParameter) -> str:
    schema = parameter.schema
    items = schema.get("items", schema)
    choices = items.get("enum")
    name = " or ".join(f"`{each}`" for each in choices) if choices else str(items["type"])
    return f"{name}, comma-separated" if items is not schema else name


def _body_members(route: Route) -> Iterator[str]:
    if isinstance(route.body, type) and issubclass(route.body, Struct):
        for each in fields(route.body):
            optional = each.default is not NODEFAULT or each.default_factory is not NODEFAULT
            yield f"`{each.encode_name}`" + ("" if optional else " (required)")


# -- configuration -----------------------------------------------------------------------------------------------------


def configuration_page() -> Iterator[str]:
    """Yield the lines of docs/reference/configuration.md."""
    yield from _CONFIGURATION_HEAD.splitlines()
    yield from _setting_rows(Settings, "MOLECULE_", skip=("limits",))
    yield from _AGENT_HEAD.splitlines()
    yield from _setting_rows(AgentSettings, "MOLECULE_MCP_")
    yield from _BRIDGE_HEAD.splitlines()
    yield from _setting_rows(BridgeSettings, "MOLECULE_BRIDGE_")
    yield from _RUNNER_HEAD.splitlines()
    yield from _setting_rows(RunnerSettings, "MOLECULE_RUNNER_")
    yield from _FOLDER_HEAD.splitlines()
    yield "| key | default | what it is |"
    yield "|---|---|---|"
    docs = _field_docs(RunConfig)
    for each in fields(RunConfig):
        yield f"| `{each.name}` | {_default(each)} | {_cell(docs.get(each.name, ''))} |"
    yield from _FOLDER_TAIL.splitlines()


_CONFIGURATION_HEAD = """\
# Configuration

Every setting of the server, of the agent process, of bridges and of an agent folder. This page is made by `scripts/docs`.

## Server

`molecule serve` and `molecule up` take a setting from a flag, else from the environment, else from the TOML file that
`MOLECULE_CONFIG` names (the names below as keys), else its default. [Limits](limits.md) are settings too. Lists are
separated by commas in the environment. An unknown name ends the start with an error.

`MOLECULE_ADMIN_TOKEN` replaces the admin token that is otherwise kept in the state folder. `molecule up` differs in
defaults: it sets `instruction_adaptive`, and logs at `warning`.

| setting | variable | default | what it is |
|---|---|---|---|
"""
_AGENT_HEAD = """
## Agent process

`molecule mcp`, `molecule bridge`, `molecule agent run` and the agent commands (`tool`, `reply`, `delegate`, …) read which
workspaces they serve from the environment:

| variable | what it is |
|---|---|
| `WORKSPACE_ID` | id of the workspace |
| `PLATFORM_URL` | address of its server, such as `https://molecule.example` |
| `MOLECULE_WORKSPACE_TOKEN` | its token |
| `MOLECULE_WORKSPACE_TOKEN_FILE` | a file with the token, read again when the server rejects the token. Without either, `.auth_token` in the state folder |
| `MOLECULE_WORKSPACES` | several workspaces, as JSON: `[{"id": "…", "token": "…" or "token_file": "…", "platform_url": "…"}]`. It replaces the variables above; `PLATFORM_URL` remains the default of `platform_url` |
| `MOLECULE_AGENT_NAME`, `MOLECULE_AGENT_DESCRIPTION`, `MOLECULE_AGENT_SKILLS` | what the agent card says; skills are separated by commas |
| `PARENT_ID` | parent of the workspace, as older runtimes set it. Not used: the server knows the parent. The prompt warns if both differ |
| `CONFIGS_DIR` | state folder; default `/configs` if it is writable (containers), else `~/.molecule-workspace` |

Exit codes of the processes: 0 after a signal or the end of input, 1 for another failure (see the log), 2 for a wrong
configuration, 3 if the only workspace is gone or its token is rejected for good.

Settings of `molecule mcp`:

| setting | variable | default | what it is |
|---|---|---|---|
"""
_BRIDGE_HEAD = """
## Bridge

Settings of [`molecule bridge command`](../how-to/bridges.md); the workspace is named as above.

| setting | variable | default | what it is |
|---|---|---|---|
"""
_RUNNER_HEAD = """
## Runner

Settings of [`molecule runner`](../how-to/runner.md). What it may start is in `runner.toml` in its state folder; its token is in
`MOLECULE_RUNNER_TOKEN` at the first start.

| setting | variable | default | what it is |
|---|---|---|---|
"""
_FOLDER_HEAD = """
## Agent folder

Keys of `config.yaml` in the folder of [`molecule agent run`](../how-to/agent-run.md). Keys of the system prompt are in
[prompts](../explanation/prompts.md). `approval_rules` is read again when the file changes; other keys need a restart. An
error in the file ends the start with exit code 2.

"""
_FOLDER_TAIL = """
`budget` holds `turn`, `thread` and `tree`, in tokens; the server's limits apply as well.
"""


def _setting_rows(kind: type[Struct], prefix: str, *, skip: Iterable[str] = ()) -> Iterator[str]:
    docs = _field_docs(kind)
    for each in fields(kind):
        if each.name in skip:
            continue
        yield f"| `{each.name}` | `{prefix}{each.name.upper()}` | {_default(each)} | {_cell(docs.get(each.name, ''))} |"


def _default(each: Any) -> str:
    value = each.default_factory() if each.default_factory is not NODEFAULT else each.default
    if value is NODEFAULT:
        return "required"
    if value in ("", None) or value in ((), []) or isinstance(value, Struct):
        return ""
    if isinstance(value, bool):
        return f"`{json.dumps(value)}`"
    return (
        f"{value:,}"
        if isinstance(value, int) and value >= 10_000
        else f"{value}".removesuffix(".0")
        if isinstance(value, int | float)
        else f"`{value}`"
    )


# -- shared ------------------------------------------------------------------------------------------------------------


def _field_docs(kind: type[Struct]) -> dict[str, str]:
    """Return the docstrings that follow the fields of a class, by field."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each in (Struct, object) or not issubclass(each, Struct):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            text = after.value if isinstance(after, ast.Expr) else None
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Constant)
            ):
                found[field.target.id] = str(text.value)
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
