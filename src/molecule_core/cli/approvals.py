"""`molecule approvals`: requests for approval and their decisions, over the API of a running server.

Runs as the workspace in the environment (`WORKSPACE_ID` and related variables), with the permissions of an agent;
without one, as the owner of the local server."""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from molecule_core.cli._client import client_options
from molecule_core.cli._context import EXIT_REJECTED, JSON_OPTION, print_result, printable_line, run_as_caller
from molecule_core.cli._lookup import find_optional_org_id, list_orgs
from molecule_core.cli.tool import read_standard_input, run_tool
from molecule_core.client.api import ApiClient, ApiError
from molecule_core.common.errors import CommandFailed
from molecule_core.tools.registry import find_tool
from molecule_core.tools.schemas.delegations import DEFAULT_RESULT_WAIT_SECONDS, MAX_RESULT_WAIT_SECONDS
from molecule_core.wire.schemas.approvals import ApprovalStatus

EXIT_OPEN = 3
_STATES = ("open", *(each.value for each in ApprovalStatus))
_DECISIONS = ("approve", "deny", "escalate", "more_info")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_NAMES = 10
"""Requests that one command sends for names."""
_ROLES = ("requester", "holder", "any")
_WORKSPACE_OPTION = click.option(
    "--workspace",
    help="Name or id of the workspace. For an agent of several workspaces: the workspace that calls (its id).",
)


@click.group("approvals")
def command() -> None:
    """Request, list and decide approvals, and set approval rules.

    Runs as the workspace in the environment (WORKSPACE_ID and related variables); else as the owner whose token is in
    MOLECULE_TOKEN; else as the admin of this machine's server."""


# -- reading -----------------------------------------------------------------------------------------------------------


@command.command("list")
@_WORKSPACE_OPTION
@click.option("--org", help="Only approvals of this organisation (name or id), without --workspace.")
@click.option("--state", type=click.Choice(_STATES), help="Only approvals in this state.")
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    help="Role of the workspace: requester, holder (it was asked to decide), or any.  [default: any]",
)
@click.option("--limit", type=click.IntRange(1, 100), help="Maximum number of approvals.")
@click.option("--before", help="Page on from this approval (its id).")
@JSON_OPTION
@client_options
def list_approvals(
    workspace: str | None,
    org: str | None,
    state: str | None,
    role: str | None,
    limit: int | None,
    before: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """List the approvals of a workspace, newest first. Without --workspace, list all open approvals, oldest first."""

    async def work(api: ApiClient, workspace_id: str) -> None:
        if workspace_id:
            path = f"/workspaces/{workspace_id}/approvals"
            page = await api.get(path, state=state, role=role or "any", limit=limit, before=before)
        elif state not in (None, "open") or role is not None:
            raise CommandFailed(reason="--state and --role require --workspace. Add --workspace.")
        else:
            org_id = await find_optional_org_id(api, org)
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
    """Show an approval with its details and its escalation path."""

    async def work(api: ApiClient, workspace_id: str) -> None:
        item = await _find_approval(api, workspace_id, approval_id)
        names = {} if as_json else await _read_names(api, item["details"])
        print_result(item, as_json, lambda shown: _print_approval(shown, names))

    run_as_caller(work, workspace, flags)


async def _read_names(api: ApiClient, details: Any) -> dict[str, str]:
    """Return the names of the workspaces whose ids are values of the details, as far as the caller may read them."""
    names = dict[str, str]()
    for each in list(dict.fromkeys(_find_ids(details)))[:_MAX_NAMES]:
        with contextlib.suppress(ApiError):
            names[each] = (await api.get(f"/workspaces/{each}"))["name"]
    return names


def _find_ids(value: Any) -> Iterator[str]:
    if isinstance(value, str) and _ID.fullmatch(value):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _find_ids(each)


async def _find_approval(api: ApiClient, workspace_id: str, approval_id: str) -> Any:
    """Return an approval of a workspace; without a workspace, search those that are pending. Raises CommandFailed."""
    if workspace_id:
        return await api.get(f"/workspaces/{workspace_id}/approvals/{approval_id}")
    for org in await list_orgs(api):
        after = None
        while True:
            page = await api.get("/approvals/pending", org=org["id"], after=after)
            for item in page["approvals"]:
                if item["approval_id"] == approval_id:
                    return item
            if page["reached_end"]:
                break
            after = page["approvals"][-1]["approval_id"]
    raise CommandFailed(
        reason=f"approval {approval_id} is not open. Name the workspace that requested it with --workspace."
    )


def _print_approval(item: dict[str, Any], names: dict[str, str]) -> None:
    _print_line(item)
    click.echo(f"details: {msgspec.json.encode(item['details']).decode()}")
    for workspace_id, name in names.items():
        click.echo(f"  {workspace_id} is {printable_line(name)}")
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
@click.option("--reason", required=True, help="Reason, understandable without further context (- for standard input).")
@click.option("--details", default="{}", help="Exact details of the action, as a JSON object.")
@click.option("--cost", type=click.FloatRange(0, float("inf"), max_open=True), help="Cost of the action.")
@click.option(
    "--expires", "expires_in", type=click.IntRange(1), help="Seconds until the request expires without approval."
)
@click.option("--task", "task_id", help="The task_id of the delegated task that needs the approval.")
@click.option(
    "--wait",
    type=click.IntRange(0, MAX_RESULT_WAIT_SECONDS),
    default=DEFAULT_RESULT_WAIT_SECONDS,
    help="Seconds to wait for the decision.  [default: 20]",
)
@click.option("--workspace", help="Workspace that calls, if MOLECULE_WORKSPACES names several.")
@JSON_OPTION
def request(action: str, reason: str, details: str, workspace: str | None, as_json: bool, **more: Any) -> None:
    """Request an approval and wait for the decision. (Tool: request_approval.)

    Exit code 0: approved; 1: not approved, or the request was rejected; 2: invalid arguments; 3: no decision yet, and
    it will be delivered to the inbox."""
    request_reason = read_standard_input() if reason == "-" else reason
    arguments = {"action": action, "reason": request_reason, "details": _decode_json(details, "--details"), **more}
    spec = find_tool("request_approval")
    if spec is None:
        raise LookupError("request_approval")
    result = run_tool(spec, arguments, workspace)
    print_result(result, as_json, _print_receipt)
    sys.exit((0 if result["status"] == ApprovalStatus.APPROVED else EXIT_REJECTED) if result["settled"] else EXIT_OPEN)


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
@click.option("--details", help="New details of the action, as a JSON object.  [default: unchanged]")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def answer(
    approval_id: str, text: str | None, details: str | None, workspace: str | None, as_json: bool, **flags: Any
) -> None:
    """Answer a question about a request. Without TEXT, or with -, the answer is read from standard input."""
    body: dict[str, Any] = {"text": read_standard_input() if text in (None, "-") else text}
    if details is not None:
        body["details"] = _decode_json(details, "--details")
    _call_as_requester(approval_id, "answer", body, workspace, as_json, flags)


@command.command("withdraw")
@click.argument("approval_id")
@click.option("--note", default="", help="Reason.")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def withdraw(approval_id: str, note: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """Withdraw a request."""
    _call_as_requester(approval_id, "withdraw", {"note": note}, workspace, as_json, flags)  # control: withdraw-note


@command.command("use")
@click.argument("approval_id")
@click.argument("action_hash")
@_WORKSPACE_OPTION
@JSON_OPTION
@client_options
def use(approval_id: str, action_hash: str, workspace: str | None, as_json: bool, **flags: Any) -> None:
    """Use an approval right before the action. It can be used once, for exactly the approved action."""
    _call_as_requester(approval_id, "use", {"action_hash": action_hash}, workspace, as_json, flags)


# -- deciding ----------------------------------------------------------------------------------------------------------


@command.command("decide")
@click.argument("approval_id")
@click.argument("decision", type=click.Choice(_DECISIONS))
@click.option("--note", default="", help="Reason or question. The requesting agent reads it.")
@click.option("--details", help="With approve: complete details, as a JSON object, that replace the proposed ones.")
@click.option("--revision", type=click.IntRange(1), help="Revision that you reviewed, as printed by `show`.")
@click.option("--action-hash", help="Hash of the action that you reviewed, as printed by `show`.")
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

    If the request has changed since it was created, --revision and --action-hash are required."""
    body: dict[str, Any] = {"decision": decision, "note": note}
    if details is not None:
        body["details"] = _decode_json(details, "--details")

    async def work(api: ApiClient, workspace_id: str) -> None:
        item = await _find_approval(api, workspace_id, approval_id)
        is_open = item["status"] in (ApprovalStatus.PENDING, ApprovalStatus.INFO)
        if is_open and item["revision"] > 1 and not (revision and action_hash):
            raise CommandFailed(
                reason=f"the request has changed (now revision {item['revision']}). "
                "Review it with show, then set --revision and --action-hash."
            )
        about = {"revision": revision or item["revision"], "action_hash": action_hash or item["action_hash"]}
        path = f"/workspaces/{workspace_id or item['workspace_id']}/approvals/{approval_id}/decide"
        print_result(await api.post(path, {**body, **about}), as_json, _print_line)

    run_as_caller(work, workspace, flags)


# -- rules and authority -----------------------------------------------------------------------------------------------


def _setting_command(name: str, path: str, member: str, about: str, example: str) -> click.Command:
    @click.command(name, help=f"{about} WORKSPACE is a name or an id. Setting requires an owner or operator.")
    @click.argument("workspace", required=False)
    @click.option(
        "--set", "given", help=f"JSON list that replaces all {member}, such as {example} (- for standard input)."
    )
    @JSON_OPTION
    @client_options
    def setting(workspace: str | None, given: str | None, as_json: bool, **flags: Any) -> None:
        async def work(api: ApiClient, workspace_id: str) -> None:
            if not workspace_id:
                raise CommandFailed(reason="no workspace is named. Add the name or the id of a workspace.")
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
        "Show or set the actions of a workspace that require an approval.",
        '[{"action": "tool:broadcast_message"}]',
    )
)
command.add_command(
    _setting_command(
        "authority",
        "standing-authority",
        "grants",
        "Show or set the actions that a workspace approves automatically for the workspaces below it.",
        '[{"action": "refund", "cost_up_to": 50}]',
    )
)
