"""`molecule threads`: threads of agents and the agents they spawned, over the API of a running server.

Runs as the workspace in the environment (`WORKSPACE_ID` and related variables), else as the owner whose token
`MOLECULE_TOKEN` holds, or the admin of the local server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from molecule_core.cli._client import client_options
from molecule_core.cli._context import JSON_OPTION, print_result, printable_line, run_as_caller
from molecule_core.cli.tool import read_standard_input
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed
from molecule_core.common.text import encode_json

_STATES = ("open", "closed", "pending_init", "running", "interrupted", "completed", "errored", "shutdown")
_WORKSPACE_OPTION = click.option(
    "--workspace",
    help="Name or id of the workspace. For an agent of several workspaces: the workspace that calls (its id).",
)
_CALLER_OPTION = click.option("--workspace", help="For an agent of several workspaces: the one that calls (its id).")
_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_MODES = ("auto", "queue", "steer")
_MAX_LINE_LENGTH = 100
_OVERRIDE_OPTIONS = (
    click.option(
        "--base",
        type=_FILE,
        help="File with the base instructions (- for standard input). They are stored permanently.",
    ),
    click.option(
        "--developer", type=_FILE, help="File with developer instructions, in addition to the base instructions."
    ),
    click.option("--model", help="Model of the thread."),
    click.option("--effort", help="Reasoning effort of the model."),
)


@click.group("threads")
def command() -> None:
    """List, start, steer, stop and fork the threads of agents.

    Runs as the workspace in the environment (WORKSPACE_ID and related variables); else as the owner whose token is in
    MOLECULE_TOKEN; else as the admin of this machine's server."""


def _add_override_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the options that override a thread's settings."""
    for option in reversed(_OVERRIDE_OPTIONS):
        verb = option(verb)
    return verb


def _collect_overrides(base: Path | None, developer: Path | None, **more: Any) -> dict[str, Any]:
    """Return the overrides that were given."""
    texts = {"base_instructions": _read_text(base), "developer": _read_text(developer)}
    return {name: value for name, value in {**texts, **more}.items() if value not in (None, "")}


def _read_text(file: Path | None) -> str | None:
    if file is None:
        return None
    if str(file) == "-":
        return read_standard_input()
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error}") from None


def _thread_path(thread_id: str, verb: str = "") -> str:
    return f"/threads/{quote(thread_id, safe='')}{f'/{verb}' if verb else ''}"


# -- reading -----------------------------------------------------------------------------------------------------------


@command.command("list")
@_WORKSPACE_OPTION
@click.option("--state", type=click.Choice(_STATES), help="Only threads in this state.")
@click.option("--parent", help="Only threads directly below this thread.")
@click.option("--ancestor", help="Only threads below this thread, at any depth.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of threads.")
@click.option("--before", help="Only threads older than this thread.")
@JSON_OPTION
@client_options
def list_threads(workspace: str | None, as_json: bool, **more: Any) -> None:
    """List the threads of a workspace, newest first."""
    query = {name: more.pop(name) for name in ("state", "parent", "ancestor", "limit", "before")}

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await api.get(_threads_path(workspace_id), **query), as_json, _print_page)

    run_as_caller(work, workspace, more)


def _threads_path(workspace_id: str) -> str:
    if not workspace_id:
        raise CommandFailed(reason="no workspace is named. Use --workspace.")
    return f"/workspaces/{quote(workspace_id, safe='')}/threads"


def _print_page(page: dict[str, Any]) -> None:
    for item in page["threads"]:
        _print_line(item)
    if not page["threads"]:
        click.echo("no threads")
    if not page["reached_end"]:
        click.echo(f"more: --before {page['threads'][-1]['thread_id']}", err=True)


def _print_line(item: dict[str, Any]) -> None:
    status, flags = item["status"], "".join(f", {each.replace('_', ' ')}" for each in item["active_flags"])
    name = "" if item["nickname"] in ("", item["task_name"]) else f" ({printable_line(item['nickname'])})"
    message = f"  {_shorten(status['message'])}" if status["message"] else ""
    head = f"{item['thread_id']}  {item['updated_at'][:19]}  {status['type']}{flags}"
    click.echo(f"{head}  {printable_line(item['path'])}{name}{message}")


def _shorten(text: str) -> str:
    line = printable_line(text)
    return line if len(line) <= _MAX_LINE_LENGTH else f"{line[: _MAX_LINE_LENGTH - 1]}…"


@command.command("show")
@click.argument("thread_id")
@click.option("--sight", is_flag=True, help="Show the context that the model will see, item by item.")
@click.option("--log", is_flag=True, help="Show the log, entry by entry.")
@click.option("--after", type=click.IntRange(0), help="With --log: only entries after this ordinal.")
@_CALLER_OPTION
@JSON_OPTION
@client_options
def show(
    thread_id: str, sight: bool, log: bool, after: int | None, workspace: str | None, as_json: bool, **flags: Any
) -> None:
    """Show a thread with its instructions, the context of its model, or its log."""
    if sight and log:
        raise CommandFailed(reason="--sight and --log cannot be combined. Remove one of them.")

    async def work(api: ApiClient, workspace_id: str) -> None:
        if sight:
            print_result(await api.get(_thread_path(thread_id, "sight")), as_json, _print_sight)
        elif log:
            print_result(await api.get(_thread_path(thread_id, "items"), after=after), as_json, _print_log)
        else:
            print_result(await api.get(_thread_path(thread_id)), as_json, _print_thread)

    run_as_caller(work, workspace, flags)


def _print_thread(item: dict[str, Any]) -> None:
    _print_line(item)
    base, where = item["base"], f"workspace {item['workspace_id']}"
    owner = f", run by {printable_line(item['owner'])}" if item["owner"] else ""
    model = printable_line(item["model"] or "-")
    click.echo(f"{where}, turns {item['turns']}, tokens {item['tokens_used']}, model {model}{owner}")
    origin = f"{base['provenance']['type']}: {printable_line(base['provenance']['source'])}"
    click.echo(f"base instructions {base['version']} ({origin}), {base['tokens']} tokens, sha256 {base['sha256']}")
    _print_block(item["base_instructions"])
    for layer in item["layers"]:
        click.echo(f"{layer['layer']} {layer['version']} ({printable_line(layer['origin'])}), {layer['tokens']} tokens")
        _print_block(layer["text"])


def _print_block(text: str) -> None:
    """Print a longer text line by line, without control characters, which a terminal could interpret."""
    for each in text.splitlines():
        click.echo(f"  {printable_line(each)}".rstrip())


def _print_sight(result: dict[str, Any]) -> None:
    for item in result["items"]:
        version = f" {item['version']}" if item.get("version") else ""
        click.echo(
            f"{item['role']} {item['type']}{version} ({printable_line(item['origin'])}), {item['tokens']} tokens"
        )
        if item.get("tool"):
            _print_block(f"{item['tool']} {msgspec.json.encode(item.get('arguments')).decode()}")
        _print_block(item["text"])
    click.echo(f"{result['tokens']} tokens", err=True)


def _print_log(page: dict[str, Any]) -> None:
    for each in page["items"]:
        body = {name: value for name, value in each["entry"].items() if name != "type"}
        click.echo(f"{each['ordinal']:>6}  {each['at'][:19]}  {each['type']:<14} {_shorten(encode_json(body))}")
    if not page["reached_end"]:
        click.echo(f"more: --after {page['items'][-1]['ordinal']}", err=True)


@command.command("tree")
@click.argument("thread_id")
@_CALLER_OPTION
@JSON_OPTION
@client_options
def tree(thread_id: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """List all threads of a thread's tree, and how much of the limits they use."""

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await api.get(_thread_path(thread_id, "tree")), as_json, _print_tree)

    run_as_caller(work, workspace, flags)


def _print_tree(result: dict[str, Any]) -> None:
    for item in sorted(result["threads"], key=lambda each: each["path"].split("/")):
        click.echo("  " * item["path"].count("/"), nl=False)
        _print_line(item)
    click.echo(f"active threads {result['live']}, total {result['lifetime']}, tokens {result['tokens']}", err=True)


# -- starting and continuing -------------------------------------------------------------------------------------------


@command.command("start")
@click.argument("text", required=False)
@_WORKSPACE_OPTION
@_add_override_options
@click.option("--nickname", default="", help="Name that people see.")
@click.option("--role", help="Role of the thread, in one word.")
@click.option("--key", help="Idempotency key: the same key returns the same thread.")
@JSON_OPTION
@client_options
def start(text: str | None, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Start a thread. TEXT is its first input (- for standard input).

    Without --base, the thread starts with the prompt that the agent of the workspace reported last."""
    names = ("base", "developer", "model", "effort", "nickname", "role", "key")
    # control: first-input
    body = _collect_overrides(
        **{name: more.pop(name) for name in names}, input=read_standard_input() if text == "-" else text
    )

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await api.post(_threads_path(workspace_id), body), as_json, _print_line)

    run_as_caller(work, workspace, more)


@command.command("say")
@click.argument("thread_id")
@click.argument("text", required=False)
@click.option(
    "--mode",
    type=click.Choice(("auto", "queue", "steer")),
    default="auto",
    help="Add the input to the running turn (steer), as a new turn (queue), or as it fits (auto).  [default: auto]",
)
@click.option("--key", help="Idempotency key: input with the same key is sent only once.")
@_CALLER_OPTION
@JSON_OPTION
@client_options
def send_input(
    thread_id: str, text: str | None, mode: str, key: str | None, workspace: str | None, as_json: bool, **flags: Any
) -> None:
    """Send input to a thread. Without TEXT, or with -, the input is read from standard input."""
    body: dict[str, Any] = {"input": read_standard_input() if text in (None, "-") else text, "mode": mode, "key": key}

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await api.post(_thread_path(thread_id, "turns"), body), as_json, _print_turn)

    run_as_caller(work, workspace, flags)


def _print_turn(result: dict[str, Any]) -> None:
    click.echo(f"{result['turn_id']}  {'added to the running turn' if result['joined'] else 'accepted'}")


@command.command("resume")
@click.argument("thread_id")
@_add_override_options
@_CALLER_OPTION
@JSON_OPTION
@client_options
def resume(thread_id: str, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Resume a thread. Changed settings are stored as a new version."""
    body = _collect_overrides(**{name: more.pop(name) for name in ("base", "developer", "model", "effort")})

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await api.post(_thread_path(thread_id, "resume"), body), as_json, _print_thread)

    run_as_caller(work, workspace, more)


@command.command("fork")
@click.argument("thread_id")
@click.option(
    "--position", type=click.IntRange(1), help="Last log entry to keep, by its ordinal.  [default: all entries]"
)
@_add_override_options
@click.option("--nickname", default="", help="Name that people see.")
@click.option("--key", help="Idempotency key: the same key returns the same fork.")
@_CALLER_OPTION
@JSON_OPTION
@client_options
def fork(thread_id: str, position: int | None, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Fork a thread. The fork continues it, with the same settings unless an option changes them."""
    names = ("base", "developer", "model", "effort", "nickname", "key")
    body = _collect_overrides(**{name: more.pop(name) for name in names}, position=position)

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await api.post(_thread_path(thread_id, "fork"), body), as_json, _print_thread)

    run_as_caller(work, workspace, more)


# -- stopping ----------------------------------------------------------------------------------------------------------


def _stop_command(verb: str, choices: tuple[str, ...], about: str) -> click.Command:
    @click.command(verb, help=about)
    @click.argument("thread_id")
    @click.option(
        "--descendants",
        type=click.Choice(choices),
        default="detach",
        help="What to do with the threads below it; detach: nothing.  [default: detach]",
    )
    @_CALLER_OPTION
    @JSON_OPTION
    @client_options
    def stopping(thread_id: str, descendants: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
        async def work(api: ApiClient, workspace_id: str) -> None:
            print_result(
                await api.post(_thread_path(thread_id, verb), {"descendants": descendants}), as_json, _print_line
            )

        run_as_caller(work, workspace, flags)

    return stopping


command.add_command(_stop_command("interrupt", ("detach", "interrupt"), "Stop the running turn at once."))
command.add_command(
    _stop_command("close", ("detach", "interrupt", "close"), "Close a thread. It accepts no more input.")
)
