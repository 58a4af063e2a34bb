"""`molecule ls`, `say`, `waiting` and `workspace`: agents and their workspaces, over the API of a running server."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._client import client_options, run_with_api
from molecule_core.cli._context import JSON_OPTION, print_result, printable_line
from molecule_core.cli._lookup import find_org_id, find_workspace, find_workspace_id, find_workspace_or_removed
from molecule_core.cli.tool import read_standard_input
from molecule_core.client.api import ApiClient
from molecule_core.client.org_plan import format_path, row_path
from molecule_core.common.errors import CommandFailed

_ORG = click.option("--org", help="Name or id of the organisation.  [default: the first one]")
_ANY_ORG = click.option("--org", help="Name or id of the organisation of the workspace.  [default: any]")
_WORKSPACE = click.argument("workspace", metavar="WORKSPACE")
_COLUMNS = ("WORKSPACE", "STATUS", "LAST HEARD", "UNREAD", "OVERDUE", "TASK")
_A2A_MEMBERS = (
    "card_url",
    "interface_url",
    "binding",
    "version",
    "streaming",
    "updates",
    "credential",
    "signature",
    "card_keys",
    "checked_at",
    "error",
)
_TIME_LENGTH = len("2026-11-28T01:30:00")


# -- looking -----------------------------------------------------------------------------------------------------------


@click.command("ls")
@_ORG
@click.option("--removed", is_flag=True, help="List the removed workspaces instead, with their ids.")
@JSON_OPTION
@client_options
def list_workspaces(org: str | None, removed: bool, as_json: bool, **flags: Any) -> None:
    """List the agents of an organisation: status, last sign of life, unread messages, overdue answers, current task.

    UNREAD counts messages that expect an answer and that the agent has not fetched for long."""

    async def work(api: ApiClient) -> None:
        if removed:
            rows = await api.get("/workspaces", org_id=await find_org_id(api, org), include_removed="true")
            gone = sorted((row for row in rows if row["removed_at"]), key=lambda row: str(row["removed_at"]))
            print_result(gone, as_json, _print_removed)
            return
        print_result(await _read_agents(api, await find_org_id(api, org)), as_json, _print_agents)

    run_with_api(work, flags)


async def _read_agents(api: ApiClient, org_id: str) -> list[dict[str, Any]]:
    snapshot, unread = await api.get(f"/orgs/{org_id}/snapshot"), await api.get(f"/orgs/{org_id}/untaken")
    rows, more = snapshot["workspaces"], snapshot["next_workspace"]
    while more is not None:
        page = await api.get(f"/orgs/{org_id}/snapshot", after=more)
        rows, more = rows + page["workspaces"], page["next_workspace"]
    by_id = {row["id"]: row for row in rows}
    overdue = {each["workspace_id"]: len(each["overdue"]) for each in snapshot["unanswered"]}
    waiting = {each["workspace_id"]: each["waiting"] for each in unread["untaken"]}
    agents = [
        {
            "id": row["id"],
            "path": format_path(row_path(row, by_id)),
            "status": row["status"],
            "limited_until": row["limited_until"],
            "last_heard_at": row["last_heard_at"],
            "unread": waiting.get(row["id"], 0),
            "overdue": overdue.get(row["id"], 0),
            "task": row["current_task"] or "",
        }
        for row in rows
    ]
    return sorted(agents, key=lambda agent: str(agent["path"]))


def _print_agents(agents: list[dict[str, Any]]) -> None:
    if not agents:
        click.echo("no workspaces")
        return
    lines = [_COLUMNS, *(_cells(agent) for agent in agents)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_removed(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(f"{str(row['removed_at'])[:_TIME_LENGTH]}  {row['id']}  {printable_line(row['name'])}")
    if not rows:
        click.echo("no removed workspaces")


def _cells(agent: dict[str, Any]) -> tuple[str, ...]:
    heard = str(agent["last_heard_at"] or "never")[:_TIME_LENGTH]
    path, task = printable_line(agent["path"]), printable_line(agent["task"])
    until = str(agent["limited_until"] or "")[:_TIME_LENGTH]
    status = f"limited until {until}" if until else agent["status"]
    return path, status, heard, str(agent["unread"]), str(agent["overdue"]), task


@click.command("waiting")
@_ORG
@JSON_OPTION
@client_options
def list_waiting(org: str | None, as_json: bool, **flags: Any) -> None:
    """List workspaces with messages that nothing has picked up, the longest waiting first, and overdue answers.

    A message is listed once it has waited for longer than a limit (MOLECULE_LIMIT_UNTAKEN_SECONDS, 10 minutes)."""

    async def work(api: ApiClient) -> None:
        org_id = await find_org_id(api, org)
        unread = await api.get(f"/orgs/{org_id}/untaken")
        found = {
            "unread": unread["untaken"],
            "untaken_seconds": unread["untaken_seconds"],
            "overdue": (await api.get(f"/orgs/{org_id}/obligations", state="overdue"))["obligations"],
        }
        print_result(found, as_json, _print_waiting)

    run_with_api(work, flags)


def _print_waiting(found: dict[str, Any]) -> None:
    for row in found["unread"]:
        more = "+" if row["more"] else ""
        name, since = printable_line(row["workspace_name"]), row["since"][:_TIME_LENGTH]
        click.echo(f"{since}  {name} ({row['status']}): {row['waiting']}{more} unread")
    for row in found["overdue"]:
        due = str(row["overdue_at"] or "")[:_TIME_LENGTH]
        name, sender = printable_line(row["workspace_name"]), printable_line(row["source_name"] or "a person")
        click.echo(f"{due}  {name}: answer overdue to {sender}, message {row['activity_id']}")
    if not found["unread"] and not found["overdue"]:
        click.echo(f"nothing has waited for longer than {_duration_text(found['untaken_seconds'])}")


def _duration_text(seconds: int) -> str:
    return f"{seconds} seconds" if seconds % 60 else f"{seconds // 60} minutes" if seconds > 60 else "1 minute"


# -- writing -----------------------------------------------------------------------------------------------------------


@click.command("say")
@_WORKSPACE
@click.argument("text", required=False)
@_ANY_ORG
@client_options
def send_text(workspace: str, text: str | None, org: str | None, **flags: Any) -> None:
    """Write a message to an agent. Without TEXT, or with -, it is read from standard input.

    WORKSPACE is an id, a unique name, or a path such as Lead/Ops. The answer arrives in the chat of the workspace."""
    content = read_standard_input() if text in (None, "-") else str(text)
    if not content.strip():
        raise CommandFailed(reason="the message is empty. Write a text.")

    async def work(api: ApiClient) -> None:
        receipt = await api.send(await find_workspace_id(api, workspace, org), content)
        click.echo(f"sent: message {receipt['activity_id']}")

    run_with_api(work, flags)


# -- workspaces --------------------------------------------------------------------------------------------------------


_CARD_KEY = click.option(
    "--card-key", "card_key_path", help="File with the public key (PEM) that its card must be signed with."
)
_CARD_JWKS = click.option("--card-jwks", "jwks_url", help="Address of the key set that its card must be signed with.")


@click.group("workspace")
def command() -> None:
    """Create, pause, resume, remove and rotate workspaces. WORKSPACE is an id, a unique name, or a path (Lead/Ops)."""


@command.command("create")
@click.argument("name")
@click.option("--parent", help="Parent of the new workspace: id, unique name or path.")
@click.option("--role", help="What its agent does, in one line.")
@click.option("--runtime", help="Runtime of its agent, such as claude-code or codex.")
@click.option(
    "--push-url", "url", help="Push its messages to the agent at this URL, instead of letting the agent poll."
)
@click.option("--a2a-card", "card_url", help="Use the A2A agent with the card at this URL as its agent.")
@click.option(
    "--a2a-credential",
    "credential_path",
    help="File with the credential of that agent as JSON, or - for standard input; see docs/how-to/a2a-agents.md.",
)
@_CARD_KEY
@_CARD_JWKS
@_ORG
@client_options
def create(
    name: str,
    parent: str | None,
    role: str | None,
    runtime: str | None,
    url: str | None,
    card_url: str | None,
    credential_path: str | None,
    org: str | None,
    **flags: Any,
) -> None:
    """Create a workspace, and print its id and its token, which is shown only once.

    With --push-url, the secret that signs the pushes is printed too."""
    credential = None if credential_path is None else _read_credential(credential_path)
    keys = _read_card_keys(flags.pop("card_key_path"), flags.pop("jwks_url"))

    async def work(api: ApiClient) -> None:
        org_id = await find_org_id(api, org)
        body: dict[str, Any] = {"name": name, "org_id": org_id, "external": True}
        given = {"role": role, "runtime": runtime, "url": url, "a2a_card_url": card_url, "a2a_credential": credential}
        given["a2a_card_keys"] = keys
        body |= {key: value for key, value in given.items() if value is not None}
        if parent is not None:
            body["parent_id"] = find_workspace(await api.get("/workspaces", org_id=org_id), parent)["id"]
        created = await api.post("/workspaces", body)
        click.echo(f"{created['id']}  {printable_line(created['name'])}")
        _print_token(created["connection"])

    run_with_api(work, flags)


def _read_credential(path: str) -> Any:
    """Read a credential from a file, since other users of a machine can read arguments. Raises CommandFailed."""
    try:
        return json.loads(read_standard_input() if path == "-" else Path(path).read_text("utf-8"))
    except OSError as error:
        raise CommandFailed(reason=f"the credential file cannot be read: {error.strerror}. Check its path.") from None
    except ValueError:
        reason = 'the credential is not JSON. Write {"kind": "bearer", "secret": "..."}.'
        raise CommandFailed(reason=reason) from None


def _read_card_keys(path: str | None, jwks_url: str | None) -> dict[str, str] | None:
    """Return the keys of a card from a file or by their address. Raises CommandFailed."""
    if path is None:
        return None if jwks_url is None else {"jwks_url": jwks_url}
    try:
        return {"pem": Path(path).read_text("utf-8"), **({} if jwks_url is None else {"jwks_url": jwks_url})}
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(reason=f"the key file cannot be read: {error}. Check its path.") from None


@command.command("a2a")
@_WORKSPACE
@click.option("--card", "card_url", help="Use the A2A agent with the card at this URL.")
@click.option("--credential", "credential_path", help="File with its credential as JSON, or - for standard input.")
@_CARD_KEY
@_CARD_JWKS
@click.option("--unsigned", is_flag=True, help="Accept cards without a signature again.")
@click.option("--end", is_flag=True, help="Stop using the A2A agent: the workspace polls again.")
@_ANY_ORG
@client_options
def change_a2a_agent(
    workspace: str,
    card_url: str | None,
    credential_path: str | None,
    card_key_path: str | None,
    jwks_url: str | None,
    unsigned: bool,
    end: bool,
    org: str | None,
    **flags: Any,
) -> None:
    """Show or change the A2A agent of a workspace: the address of its card, and the credential for it.

    A new card drops the credential of the one before. Nothing prints a credential."""
    body: dict[str, Any] = {} if card_url is None else {"a2a_card_url": card_url}
    if end:
        body["a2a_card_url"] = None
    if credential_path is not None:
        body["a2a_credential"] = _read_credential(credential_path)
    keys = _read_card_keys(card_key_path, jwks_url)
    if keys is not None or unsigned:
        body["a2a_card_keys"] = keys

    async def work(api: ApiClient) -> None:
        path = f"/workspaces/{await find_workspace_id(api, workspace, org)}"
        if body:
            await api.call("PATCH", path, body=body)
            click.echo("changed")
            return
        found = await api.get(f"{path}/a2a-agent")
        for name in _A2A_MEMBERS:
            click.echo(f"{name}: {'' if found[name] is None else printable_line(str(found[name]))}")
        if found["updates"] == "poll" and found["push_offered"]:
            click.echo("The agent offers push notifications. Set public_url of the server to use them.")

    run_with_api(work, flags)


def _print_token(connection: dict[str, Any]) -> None:
    click.echo(f"token, shown only once: {connection['auth_token']}")
    if "push_secret" in connection:
        _print_push_secret(connection["push_secret"])


def _print_push_secret(secret: str) -> None:
    click.echo(f"push secret, shown only once: {secret}")


def _add_change(verb: str, done: str, about: str) -> None:
    """Add a command that posts to a route of a workspace."""

    @command.command(verb, help=about)
    @_WORKSPACE
    @_ANY_ORG
    @client_options
    def change(workspace: str, org: str | None, **flags: Any) -> None:
        async def work(api: ApiClient) -> None:
            await api.post(f"/workspaces/{await find_workspace_id(api, workspace, org)}/{verb}")
            click.echo(done)

        run_with_api(work, flags)


_add_change("pause", "paused", "Pause a workspace: its agent gets no messages until it is resumed.")
_add_change("resume", "resumed", "Resume a paused or hibernated workspace.")


@command.command("end-limit")
@_WORKSPACE
@_ANY_ORG
@client_options
def end_limit(workspace: str, org: str | None, **flags: Any) -> None:
    """End the limit of a workspace before its time: its agent tries again and gets its messages.

    A workspace is limited after its agent has reached a limit of its vendor. `molecule ls` shows until when."""

    async def work(api: ApiClient) -> None:
        await api.call("DELETE", f"/workspaces/{await find_workspace_id(api, workspace, org)}/limit")
        click.echo("the limit has ended")

    run_with_api(work, flags)


@command.command("publish")
@_WORKSPACE
@click.option("--off", is_flag=True, help="Require a credential for the card again.")
@_ANY_ORG
@client_options
def publish(workspace: str, off: bool, org: str | None, **flags: Any) -> None:
    """Make the A2A card of a workspace readable without a credential. Calls still need one."""

    async def work(api: ApiClient) -> None:
        workspace_id = await find_workspace_id(api, workspace, org)
        await api.call("PATCH", f"/workspaces/{workspace_id}", body={"a2a_published": not off})
        state = "needs a credential" if off else "is public"
        click.echo(f"the card {state}: /workspaces/{workspace_id}/.well-known/agent-card.json")

    run_with_api(work, flags)


@command.command("remove")
@_WORKSPACE
@click.option("--yes", is_flag=True, help="Remove it without asking.")
@_ANY_ORG
@client_options
def remove(workspace: str, yes: bool, org: str | None, **flags: Any) -> None:
    """Remove a workspace and all below it. Their tokens become invalid; this cannot be undone.

    Its people can still read its messages. To end a token that has leaked, use `molecule workspace rotate`."""

    async def work(api: ApiClient) -> None:
        rows = await api.get("/workspaces", org_id=None if org is None else await find_org_id(api, org))
        found = find_workspace(rows, workspace)
        below = _names_below(rows, found["id"])
        what = f"workspace {found['name']!r}" + (f" and {len(below)} below it: {', '.join(below)}" if below else "")
        if not yes and not sys.stdin.isatty():
            raise CommandFailed(reason=f"{what} would be removed. To confirm, run this again with --yes.")
        if yes or click.confirm(f"Remove {what}? This cannot be undone."):
            await api.call("DELETE", f"/workspaces/{found['id']}", query={"confirm": "true"})
            click.echo("removed")

    run_with_api(work, flags)


def _names_below(rows: list[dict[str, Any]], workspace_id: str) -> list[str]:
    children = [row for row in rows if row["parent_id"] == workspace_id]
    return [name for row in children for name in (str(row["name"]), *_names_below(rows, row["id"]))]


@command.command("unread")
@_WORKSPACE
@_ANY_ORG
@client_options
def export_unread(workspace: str, org: str | None, **flags: Any) -> None:
    """Print the unread messages of a workspace, also of a removed one, as JSON lines, oldest first.

    Nothing is claimed or acknowledged. `molecule ls --removed` lists removed workspaces."""

    async def work(api: ApiClient) -> None:
        path = f"/workspaces/{(await find_workspace_or_removed(api, workspace, org))['id']}/activity"
        page = await api.get(path, waiting="true")
        while page:
            for row in page:
                click.echo(json.dumps(row, ensure_ascii=False))
            page = await api.get(path, waiting="true", since_id=page[-1]["id"])

    run_with_api(work, flags)


@command.command("rotate")
@_WORKSPACE
@click.option("--grace", type=click.IntRange(min=0), help="Seconds for which the old tokens stay valid.  [default: 0]")
@_ANY_ORG
@client_options
def rotate(workspace: str, grace: int | None, org: str | None, **flags: Any) -> None:
    """Replace all tokens of a workspace by a new one, and print it. Do this when a token has leaked."""

    async def work(api: ApiClient) -> None:
        path = f"/workspaces/{await find_workspace_id(api, workspace, org)}/external/rotate"
        answer = await api.post(path, {"grace_seconds": grace or 0})
        click.echo(f"{answer['ended']} tokens end at {answer['ends_at']}")
        _print_token(answer["connection"])

    run_with_api(work, flags)


@command.command("rotate-push-secret")
@_WORKSPACE
@click.option(
    "--grace",
    type=click.IntRange(min=0),
    help="Seconds for which the old secret signs too; 0 if it has leaked.  [default: a day]",
)
@_ANY_ORG
@client_options
def rotate_push_secret(workspace: str, grace: int | None, org: str | None, **flags: Any) -> None:
    """Create a new secret that signs the pushes to an agent, and print it.

    A workspace that has none gets its first one. Until the old secret ends, each push carries a signature of both."""

    async def work(api: ApiClient) -> None:
        path = f"/workspaces/{await find_workspace_id(api, workspace, org)}/push-secret/rotate"
        answer = await api.post(path, {} if grace is None else {"grace_seconds": grace})
        if answer["ended"]:
            click.echo(f"the old secret signs until {answer['ends_at']}")
        _print_push_secret(answer["push_secret"])

    run_with_api(work, flags)
