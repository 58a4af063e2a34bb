"""`molecule threads`: the conversations of agents, and the agents that agents have begun; over the API of a running
server.

Where the environment names a workspace (`WORKSPACE_ID` and its fellows, as agents have them), that workspace calls;
else the owner whose token `MOLECULE_TOKEN` holds, or the admin of this machine's server.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from molecule_core.cli.asking import JSON, do, plain, say
from molecule_core.cli.operating import operating
from molecule_core.cli.tool import standard_input
from molecule_core.client.api import Api
from molecule_core.ground.errors import CommandFailed

_STATES = ("open", "closed", "pending_init", "running", "interrupted", "completed", "errored", "shutdown")
_WHOSE = click.option("--workspace", help="Whose (its id). As an agent of several workspaces: as which to call.")
_AS = click.option("--workspace", help="As which of the workspaces in MOLECULE_WORKSPACES to call.")
_FILE = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
_MODES = ("auto", "queue", "steer")
_SHORT = 100
_OVERRIDES = (
    click.option("--base", type=_FILE, help="A file with the base instructions, - is standard input; kept for good."),
    click.option("--developer", type=_FILE, help="A file with instructions that stand beside the base."),
    click.option("--model", help="Which model it works with."),
    click.option("--effort", help="How hard the model thinks."),
)


@click.group("threads")
def command() -> None:
    """Conversations of agents: look, start, speak, stop, fork.

    Called as the workspace that the environment names (WORKSPACE_ID, ...), else as the owner whose token MOLECULE_TOKEN
    holds, or as the admin of this machine's server."""


def _overriding(verb: Callable[..., None]) -> Callable[..., None]:
    """The flags of verbs that say what a thread is to work with."""
    for option in reversed(_OVERRIDES):
        verb = option(verb)
    return verb


def _wished(base: Path | None, developer: Path | None, **more: Any) -> dict[str, Any]:
    """What was given of them."""
    texts = {"base_instructions": _text_of(base), "developer": _text_of(developer)}
    return {name: value for name, value in {**texts, **more}.items() if value not in (None, "")}


def _text_of(file: Path | None) -> str | None:
    if file is None:
        return None
    if str(file) == "-":
        return standard_input()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error}") from None


def _path(thread_id: str, verb: str = "") -> str:
    return f"/threads/{quote(thread_id, safe='')}{f'/{verb}' if verb else ''}"


# -- looking -----------------------------------------------------------------------------------------------------------


@command.command("list")
@_WHOSE
@click.option("--state", type=click.Choice(_STATES), help="Only those that stand so.")
@click.option("--parent", help="Only those right below this thread.")
@click.option("--ancestor", help="Only those below this thread.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@click.option("--before", help="Only those older than this one.")
@JSON
@operating
def list_all(workspace: str | None, as_json: bool, **more: Any) -> None:
    """The threads of a workspace, one line each, newest first."""
    query = {name: more.pop(name) for name in ("state", "parent", "ancestor", "limit", "before")}

    async def work(api: Api, whose: str) -> None:
        say(await api.get(_of(whose), **query), as_json, _show_page)

    do(work, workspace, more)


def _of(whose: str) -> str:
    if not whose:
        raise CommandFailed(reason="say with --workspace whose threads (its id)")
    return f"/workspaces/{quote(whose, safe='')}/threads"


def _show_page(page: dict[str, Any]) -> None:
    for item in page["threads"]:
        _line(item)
    if not page["threads"]:
        click.echo("no threads")
    if not page["reached_end"]:
        click.echo(f"more: --before {page['threads'][-1]['thread_id']}", err=True)


def _line(item: dict[str, Any]) -> None:
    status, flags = item["status"], "".join(f", {each.replace('_', ' ')}" for each in item["active_flags"])
    name = "" if item["nickname"] in ("", item["task_name"]) else f" ({plain(item['nickname'])})"
    said = f"  {_short(status['message'])}" if status["message"] else ""
    head = f"{item['thread_id']}  {item['updated_at'][:19]}  {status['type']}{flags}"
    click.echo(f"{head}  {plain(item['path'])}{name}{said}")


def _short(text: str) -> str:
    shown = plain(text)
    return shown if len(shown) <= _SHORT else f"{shown[: _SHORT - 1]}…"


@command.command("show")
@click.argument("thread_id")
@click.option("--sight", is_flag=True, help="What its model will see, item by item.")
@click.option("--log", is_flag=True, help="Its log, line by line.")
@click.option("--after", type=click.IntRange(0), help="With --log: only lines behind this ordinal.")
@_AS
@JSON
@operating
def show(
    thread_id: str, sight: bool, log: bool, after: int | None, workspace: str | None, as_json: bool, **flags: Any
) -> None:
    """A thread with its instructions; or what its model will see, or its log."""
    if sight and log:
        raise CommandFailed(reason="take one of --sight and --log")

    async def work(api: Api, whose: str) -> None:
        if sight:
            say(await api.get(_path(thread_id, "sight")), as_json, _show_sight)
        elif log:
            say(await api.get(_path(thread_id, "items"), after=after), as_json, _show_log)
        else:
            say(await api.get(_path(thread_id)), as_json, _show)

    do(work, workspace, flags)


def _show(item: dict[str, Any]) -> None:
    _line(item)
    base, where = item["base"], f"workspace {item['workspace_id']}"
    owner = f", run by {plain(item['owner'])}" if item["owner"] else ""
    click.echo(
        f"{where}, turns {item['turns']}, tokens {item['tokens_used']}, model {plain(item['model'] or '-')}{owner}"
    )
    origin = f"{base['provenance']['type']}: {plain(base['provenance']['source'])}"
    click.echo(f"base instructions {base['version']} ({origin}), {base['tokens']} tokens, sha256 {base['sha256']}")
    _block(item["base_instructions"])
    for layer in item["layers"]:
        click.echo(f"{layer['layer']} {layer['version']} ({plain(layer['origin'])}), {layer['tokens']} tokens")
        _block(layer["text"])


def _block(text: str) -> None:
    """A longer text, line by line, none of which a terminal takes for orders."""
    for each in text.splitlines():
        click.echo(f"  {plain(each)}".rstrip())


def _show_sight(told: dict[str, Any]) -> None:
    for item in told["items"]:
        version = f" {item['version']}" if item.get("version") else ""
        click.echo(f"{item['role']} {item['type']}{version} ({plain(item['origin'])}), {item['tokens']} tokens")
        if item.get("tool"):
            _block(f"{item['tool']} {msgspec.json.encode(item.get('arguments')).decode()}")
        _block(item["text"])
    click.echo(f"{told['tokens']} tokens", err=True)


def _show_log(page: dict[str, Any]) -> None:
    for each in page["items"]:
        body = {name: value for name, value in each["entry"].items() if name != "type"}
        click.echo(f"{each['ordinal']:>6}  {each['at'][:19]}  {each['type']:<14} {_short(_encoded(body))}")
    if not page["reached_end"]:
        click.echo(f"more: --after {page['items'][-1]['ordinal']}", err=True)


def _encoded(body: Any) -> str:
    return msgspec.json.encode(body).decode()


@command.command("tree")
@click.argument("thread_id")
@_AS
@JSON
@operating
def tree(thread_id: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """All threads of its tree, and what they use of the limits."""

    async def work(api: Api, whose: str) -> None:
        say(await api.get(_path(thread_id, "tree")), as_json, _show_tree)

    do(work, workspace, flags)


def _show_tree(told: dict[str, Any]) -> None:
    for item in sorted(told["threads"], key=lambda each: each["path"].split("/")):
        click.echo("  " * item["path"].count("/"), nl=False)
        _line(item)
    click.echo(f"at work {told['live']}, in all {told['lifetime']}, tokens {told['tokens']}", err=True)


# -- starting and going on ---------------------------------------------------------------------------------------------


@command.command("start")
@click.argument("text", required=False)
@_WHOSE
@_overriding
@click.option("--nickname", default="", help="What people read of it.")
@click.option("--role", help="What it is, in a word.")
@click.option("--key", help="The same again gets the same thread.")
@JSON
@operating
def start(text: str | None, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Start a thread, with TEXT as its first input (- reads it from standard input). Without --base it begins with the
    prompt that its agent has told last."""
    names = ("base", "developer", "model", "effort", "nickname", "role", "key")
    # control: first-input
    wish = _wished(**{name: more.pop(name) for name in names}, input=standard_input() if text == "-" else text)

    async def work(api: Api, whose: str) -> None:
        say(await api.post(_of(whose), wish), as_json, _line)

    do(work, workspace, more)


@command.command("say")
@click.argument("thread_id")
@click.argument("text", required=False)
@click.option(
    "--mode", type=click.Choice(("auto", "queue", "steer")), default="auto", help="steer: into the turn that runs."
)
@click.option("--key", help="The same again is said once.")
@_AS
@JSON
@operating
def speak(
    thread_id: str, text: str | None, mode: str, key: str | None, workspace: str | None, as_json: bool, **flags: Any
) -> None:
    """Give a thread input. TEXT is read from standard input if it is - or left out."""
    body: dict[str, Any] = {"input": standard_input() if text in (None, "-") else text, "mode": mode, "key": key}

    async def work(api: Api, whose: str) -> None:
        say(await api.post(_path(thread_id, "turns"), body), as_json, _show_turn)

    do(work, workspace, flags)


def _show_turn(told: dict[str, Any]) -> None:
    click.echo(f"{told['turn_id']}  {'joined the turn that runs' if told['joined'] else 'accepted'}")


@command.command("resume")
@click.argument("thread_id")
@_overriding
@_AS
@JSON
@operating
def resume(thread_id: str, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Take a thread up again. What is given anew is kept as a new version, and shown."""
    wish = _wished(**{name: more.pop(name) for name in ("base", "developer", "model", "effort")})

    async def work(api: Api, whose: str) -> None:
        say(await api.post(_path(thread_id, "resume"), wish), as_json, _show)

    do(work, workspace, more)


@command.command("fork")
@click.argument("thread_id")
@click.option("--position", type=click.IntRange(1), help="The last ordinal that it sees.  [default: all]")
@_overriding
@click.option("--nickname", default="", help="What people read of it.")
@click.option("--key", help="The same again gets the same fork.")
@_AS
@JSON
@operating
def fork(thread_id: str, position: int | None, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Go on from a thread in another one, which keeps what is not given anew."""
    names = ("base", "developer", "model", "effort", "nickname", "key")
    wish = _wished(**{name: more.pop(name) for name in names}, position=position)

    async def work(api: Api, whose: str) -> None:
        say(await api.post(_path(thread_id, "fork"), wish), as_json, _show)

    do(work, workspace, more)


# -- stopping ----------------------------------------------------------------------------------------------------------


def _stopping(verb: str, choices: tuple[str, ...], about: str) -> click.Command:
    @click.command(verb, help=about)
    @click.argument("thread_id")
    @click.option("--descendants", type=click.Choice(choices), default="detach", help="What becomes of those below it.")
    @_AS
    @JSON
    @operating
    def stopping(thread_id: str, descendants: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
        async def work(api: Api, whose: str) -> None:
            say(await api.post(_path(thread_id, verb), {"descendants": descendants}), as_json, _line)

        do(work, workspace, flags)

    return stopping


command.add_command(_stopping("interrupt", ("detach", "interrupt"), "Stop the turn that runs, at once."))
command.add_command(_stopping("close", ("detach", "interrupt", "close"), "End a thread: it takes nothing more."))
