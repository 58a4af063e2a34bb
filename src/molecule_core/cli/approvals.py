"""`molecule approvals`: requests for approval and their decisions, over the API of a running server.

Runs as the workspace in the environment (`WORKSPACE_ID` and related variables), with the permissions of an agent;
without one, as the owner of the local server."""

import sys
from typing import Any

import click
import msgspec

from molecule_core.cli._client import client_options
from molecule_core.cli._context import EXIT_REJECTED, JSON_OPTION, print_result, printable_line, run_as_caller
from molecule_core.cli.tool import read_standard_input, run_tool
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed
from molecule_core.tools.registry import find_tool
from molecule_core.tools.schemas.delegations import DEFAULT_RESULT_WAIT_SECONDS, MAX_RESULT_WAIT_SECONDS

EXIT_OPEN = 3
_STATES = ("open", "pending", "info_requested", "approved", "denied", "expired", "withdrawn")
_DECISIONS = ("approve", "deny", "escalate", "more_info")
_ROLES = ("requester", "holder", "any")
_WORKSPACE_OPTION = click.option(
    "--workspace", help="Whose (its id). As an agent of several workspaces: as which to call."
)


@click.group("approvals")
def command() -> None:
    """What workspaces ask leave for: look, decide, set rules.

    Called as the workspace that the environment names (WORKSPACE_ID, ...), else as the owner of this machine's
    server."""


# -- reading -----------------------------------------------------------------------------------------------------------


@command.command("list")
@_WORKSPACE_OPTION
@click.option("--org", "org_id", help="Of this organisation (its id), where no workspace is named.")
@click.option("--state", type=click.Choice(_STATES), help="Only those that stand so.")
@click.option("--role", type=click.Choice(_ROLES), help="What it asked for, is asked to decide, or both.")
@click.option("--limit", type=click.IntRange(1, 100), help="At most so many.")
@click.option("--before", help="Only those before this one (of a workspace), or behind it (of an organisation).")
@JSON_OPTION
@client_options
def list_approvals(
    workspace: str | None,
    org_id: str | None,
    state: str | None,
    role: str | None,
    limit: int | None,
    before: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """One line each: those of a workspace, newest first; without one, all that wait, oldest first."""

    async def work(api: ApiClient, workspace_id: str) -> None:
        if workspace_id:
            path = f"/workspaces/{workspace_id}/approvals"
            page = await api.get(path, state=state, role=role or "any", limit=limit, before=before)
        elif state not in (None, "open") or role is not None:
            raise CommandFailed(reason="--state and --role need --workspace; without one, those that wait are listed")
        else:
            page = await api.get("/approvals/pending", org=org_id, limit=limit, after=before)
        print_result(page, as_json, _print_page)

    run_as_caller(work, workspace, flags)


def _print_page(page: dict[str, Any]) -> None:
    for item in page["approvals"]:
        _print_line(item)
    if not page["approvals"]:
        click.echo("no approvals")
    if not page["reached_end"]:
        click.echo(f"more: --before {page['approvals'][-1]['approval_id']}", err=True)


def _print_line(item: dict[str, Any]) -> None:
    holder = item["holder"]["name"] or {"none": "", "person": "a person"}.get(item["holder"]["kind"], "")
    waiting_for = f" (waits for {holder})" if holder else ""
    cost = "" if item["cost"] is None else f" [{item['cost']:g}]"
    head = f"{item['approval_id']}  {item['created_at'][:19]}  {item['status']}{waiting_for}"
    click.echo(f"{head}  {printable_line(item['requester_name'])}: {printable_line(item['action'])}{cost}")


@command.command("show")
@click.argument("approval_id")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def show(approval_id: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """All about one: what exactly is asked for, and all who had to do with it."""

    async def work(api: ApiClient, workspace_id: str) -> None:
        print_result(await _find_approval(api, workspace_id, approval_id), as_json, _print_approval)

    run_as_caller(work, workspace, flags)


async def _find_approval(api: ApiClient, workspace_id: str, approval_id: str) -> Any:
    """Return an approval of a workspace; without a workspace, search those that are pending. Raises CommandFailed."""
    if workspace_id:
        return await api.get(f"/workspaces/{workspace_id}/approvals/{approval_id}")
    for org in await api.get("/orgs"):
        after = None
        while True:
            page = await api.get("/approvals/pending", org=org["id"], after=after)
            for item in page["approvals"]:
                if item["approval_id"] == approval_id:
                    return item
            if page["reached_end"]:
                break
            after = page["approvals"][-1]["approval_id"]
    raise CommandFailed(reason=f"approval {approval_id} does not wait; name who asked with --workspace to see it")


def _print_approval(item: dict[str, Any]) -> None:
    _print_line(item)
    click.echo(f"details: {msgspec.json.encode(item['details']).decode()}")
    click.echo(f"revision {item['revision']}, action_hash {item['action_hash']}, expires {item['expires_at'][:19]}")
    if item["reason"]:
        click.echo(f"reason: {printable_line(item['reason'])}")
    for policy in item["policy"]:
        click.echo(f"{policy['kind']}: {printable_line(policy['text'])}")
    for hop in item["path"]:
        to = "" if hop["holder"] is None else f" -> {hop['holder']['name'] or 'a person'}"
        comment = " ".join(printable_line(each) for each in (hop["why"], hop["note"]) if each)
        by = printable_line(hop["by"]["name"] or hop["by"]["kind"])
        click.echo(f"  {hop['at'][:19]}  {hop['what']:<14} {by}{to}  {comment}")


# -- requesting --------------------------------------------------------------------------------------------------------


@command.command("request")
@click.argument("action")
@click.option("--reason", required=True, help="Why, so that it stands alone; - reads it from standard input.")
@click.option("--details", default="{}", help="Exactly what would be done, a JSON object.")
@click.option("--cost", type=click.FloatRange(0, float("inf"), max_open=True), help="What it costs.")
@click.option(
    "--expires", "expires_in", type=click.IntRange(1), help="Seconds after which it is denied if nobody has decided."
)
@click.option("--task", "task_id", help="The task_id of the delegated task that it is for.")
@click.option(
    "--wait",
    type=click.IntRange(0, MAX_RESULT_WAIT_SECONDS),
    default=DEFAULT_RESULT_WAIT_SECONDS,
    help="Seconds to wait.  [default: 20]",
)
@click.option("--workspace", help="As which of the workspaces in MOLECULE_WORKSPACES to call.")
@JSON_OPTION
def request(action: str, reason: str, details: str, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Ask for an approval, and wait for the decision. (The tool request_approval.)

    Exit code 0 if it is approved; 1 if it is not, or was rejected; 2 for wrong arguments; 3 if there is no decision
    yet: it will arrive in the inbox."""
    request_reason = read_standard_input() if reason == "-" else reason
    arguments = {"action": action, "reason": request_reason, "details": _decode_json(details, "--details"), **more}
    spec = find_tool("request_approval")
    if spec is None:
        raise LookupError("request_approval")
    result = run_tool(spec, arguments, workspace)
    print_result(result, as_json, _print_receipt)
    sys.exit((0 if result["status"] == "approved" else EXIT_REJECTED) if result["settled"] else EXIT_OPEN)


def _print_receipt(result: dict[str, Any]) -> None:
    click.echo(f"{result['approval_id']}  {result['status']}")
    if result["edited"]:
        click.echo(f"details: {msgspec.json.encode(result['details']).decode()}")
    if result["said"]:
        click.echo(f"{printable_line(result['decided_by'])}: {printable_line(result['said'])}")
    click.echo(result["note"], err=True)


def _decode_json(text: str, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise CommandFailed(reason=f"{name} is not JSON ({error})") from None


def _call_as_requester(
    approval_id: str, verb: str, body: Any, workspace: str | None, as_json: bool, flags: Any
) -> None:
    """Run an action of a requester on its own approval."""

    async def work(api: ApiClient, workspace_id: str) -> None:
        requester_id = workspace_id or (await _find_approval(api, "", approval_id))["workspace_id"]
        result = await api.post(f"/workspaces/{requester_id}/approvals/{approval_id}/{verb}", body)
        print_result(result, as_json, _print_line if verb != "use" else _print_used)

    run_as_caller(work, workspace, flags)


def _print_used(result: dict[str, Any]) -> None:
    click.echo(f"{result['approval_id']}  used at {result['used_at'][:19]}")


@command.command("answer")
@click.argument("approval_id")
@click.argument("text", required=False)
@click.option("--details", help="What it asks for now, a JSON object; left out: the same.")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def answer(
    approval_id: str, text: str | None, details: str | None, workspace: str | None, as_json: bool, **flags: Any
) -> None:
    """Answer the question of who is to decide. TEXT is read from standard input if it is - or left out."""
    body: dict[str, Any] = {"text": read_standard_input() if text in (None, "-") else text}
    if details is not None:
        body["details"] = _decode_json(details, "--details")
    _call_as_requester(approval_id, "answer", body, workspace, as_json, flags)


@command.command("withdraw")
@click.argument("approval_id")
@click.option("--note", default="", help="Why.")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def withdraw(approval_id: str, note: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """Take a request back."""
    _call_as_requester(approval_id, "withdraw", {"note": note}, workspace, as_json, flags)  # control: withdraw-note


@command.command("use")
@click.argument("approval_id")
@click.argument("action_hash")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def use(approval_id: str, action_hash: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """Use an approval, right before the action: it works once, for exactly the action that was approved."""
    _call_as_requester(approval_id, "use", {"action_hash": action_hash}, workspace, as_json, flags)


# -- deciding ----------------------------------------------------------------------------------------------------------


@command.command("decide")
@click.argument("approval_id")
@click.argument("decision", type=click.Choice(_DECISIONS))
@click.option("--note", default="", help="Why, or the question; whoever asked reads it.")
@click.option("--details", help="With approve: the whole details instead of the proposed ones, a JSON object.")
@click.option("--revision", type=click.IntRange(1), help="Of what is decided about, as it was shown.")
@click.option("--action-hash", help="Of what is decided about, as it was shown.")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def decide(
    approval_id: str,
    decision: str,
    note: str,
    details: str | None,
    revision: int | None,
    action_hash: str | None,
    workspace: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Decide on an approval.

    If it has changed since it was first requested, give its revision and action_hash, as printed by `show`."""
    body: dict[str, Any] = {"decision": decision, "note": note}
    if details is not None:
        body["details"] = _decode_json(details, "--details")

    async def work(api: ApiClient, workspace_id: str) -> None:
        item = await _find_approval(api, workspace_id, approval_id)
        is_open = item["status"] in _STATES[1:3]
        if is_open and item["revision"] > 1 and not (revision and action_hash):
            raise CommandFailed(
                reason="it has changed since it was first asked for; look at it with show, then give "
                "--revision and --action-hash"
            )
        about = {"revision": revision or item["revision"], "action_hash": action_hash or item["action_hash"]}
        path = f"/workspaces/{workspace_id or item['workspace_id']}/approvals/{approval_id}/decide"
        print_result(await api.post(path, {**body, **about}), as_json, _print_line)

    run_as_caller(work, workspace, flags)


# -- rules and authority -----------------------------------------------------------------------------------------------


def _setting_command(name: str, path: str, member: str, about: str, example: str) -> click.Command:
    @click.command(name, help=f"{about} Without --set they are shown. Only an owner or operator sets them.")
    @click.argument("workspace", required=False)
    @click.option("--set", "given", help=f"A JSON list that takes the place of all, such as {example}; - reads it.")
    @JSON_OPTION
    @client_options
    def setting(workspace: str | None, given: str | None, as_json: bool, **flags: Any) -> None:
        async def work(api: ApiClient, workspace_id: str) -> None:
            if not workspace_id:
                raise CommandFailed(reason="name the workspace")
            where = f"/workspaces/{workspace_id}/{path}"
            if given is None:
                print_result(await api.get(where), as_json, show_all)
                return
            wanted = _decode_json(read_standard_input() if given == "-" else given, "--set")
            print_result(await api.call("PUT", where, body={member: wanted}), as_json, show_all)

        run_as_caller(work, workspace, flags)

    def show_all(result: dict[str, Any]) -> None:
        for each in result[member]:
            rest = {key: value for key, value in each.items() if key not in ("action", "note") and value is not None}
            more = "".join(f"  {key}={value}" for key, value in rest.items())
            click.echo(f"{printable_line(each['action'])}{more}  {printable_line(each.get('note', ''))}".rstrip())
        if not result[member]:
            click.echo("none")

    return setting


command.add_command(
    _setting_command(
        "rules",
        "approval-rules",
        "rules",
        "What a workspace needs leave for.",
        '[{"action": "tool:broadcast_message"}]',
    )
)
command.add_command(
    _setting_command(
        "authority",
        "standing-authority",
        "grants",
        "What a workspace approves by itself for those below it.",
        '[{"action": "refund", "cost_up_to": 50}]',
    )
)
