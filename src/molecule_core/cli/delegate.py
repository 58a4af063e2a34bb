"""`molecule delegate`, `status` and `cancel`: delegation from a shell, for runtimes without MCP."""

import json
import sys
from typing import Any, TextIO
from uuid import UUID

import click

from molecule_core.cli._context import printable_line, printable_text
from molecule_core.cli._lookup import find_named
from molecule_core.cli.tool import WORKSPACE_OPTION, read_standard_input, run_tool
from molecule_core.common.errors import CommandFailed
from molecule_core.tools.registry import find_tool
from molecule_core.tools.schemas.delegations import DEFAULT_RESULT_WAIT_SECONDS, MAX_RESULT_WAIT_SECONDS
from molecule_core.tools.spec import ToolSpec
from molecule_core.wire.schemas.delegations import DelegationStatus

EXIT_FAILED, EXIT_OPEN = 1, 3


def _tool_spec(name: str) -> ToolSpec:
    spec = find_tool(name)
    if spec is None:
        raise LookupError(name)
    return spec


@click.command("delegate")
@click.argument("target", metavar="WORKSPACE")
@click.argument("task", required=False)
@click.option("--async", "asynchronous", is_flag=True, help="Do not wait. The result is delivered to the inbox.")
@click.option(
    "--wait",
    type=click.IntRange(0, MAX_RESULT_WAIT_SECONDS),
    help=f"Seconds to wait for the result.  [default: {DEFAULT_RESULT_WAIT_SECONDS}]",
)
@click.option("--deadline", type=click.IntRange(1), help="Seconds until the task fails if it is not completed.")
@click.option(
    "--accept",
    type=click.File(encoding="utf-8"),
    help="File with the checks that the result must pass: a JSON list. - reads standard input.",
)
@click.option("--rounds", type=click.IntRange(0), help="How many results that fail go back to the peer.")
@click.option("--tool", "tools", multiple=True, help="Name of a tool that the task may use; no others. Repeatable.")
@click.option("--peer", "peers", multiple=True, help="Id of a workspace that it may message; no others. Repeatable.")
@click.option("--depth", type=click.IntRange(0), help="Levels of delegations below the task; 0: none.")
@click.option("--no-approvals", is_flag=True, help="The task may request no approvals.")
@click.option("--approval", "approval_id", help="Id of the approved request, if an approval rule requires one.")
@WORKSPACE_OPTION
def delegate(  # noqa: PLR0913, PLR0917 (each is an option)
    target: str,
    task: str | None,
    asynchronous: bool,
    wait: int | None,
    deadline: int | None,
    accept: TextIO | None,
    rounds: int | None,
    approval_id: str | None,
    workspace: str | None,
    **limits: Any,
) -> None:
    """Delegate a task to a peer and wait for its result. (Tools: delegate_task and delegate_task_async.)

    WORKSPACE is the id or unique name of a peer.

    Without TASK, or with -, the task is read from standard input. The first line of the output has the task_id and the
    status; the other lines are the result. Exit code 0: the task is completed, or was started with --async; 1: it was
    rejected or has failed; 2: invalid arguments; 3: it is not completed yet, and the result will be delivered to the
    inbox."""
    if asynchronous and wait is not None:
        raise CommandFailed(reason="--async and --wait cannot be combined. Remove one of them.")
    text = read_standard_input() if task is None or task == "-" else task
    text.encode()  # what is not UTF-8 is rejected before a request
    arguments: dict[str, Any] = {
        "workspace_id": _find_peer_id(target, workspace),
        "task": text,
        "deadline_seconds": deadline,
    }
    if accept is not None:
        arguments["accept"] = _read_checks(accept)
    if rounds is not None:
        arguments["rounds"] = rounds
    if may := _scope_of(**limits):
        arguments["may"] = may
    if approval_id is not None:
        arguments["approval_id"] = approval_id
    if not asynchronous:
        arguments["wait"] = wait
    result = run_tool(_tool_spec("delegate_task_async" if asynchronous else "delegate_task"), arguments, workspace)
    click.echo(f"{result['task_id']}  {result['status']}")
    if result["result"]:
        click.echo(printable_text(result["result"]))
    if result["note"]:
        click.echo(result["note"], err=True)
    _exit_with_outcome(result, open_code=0 if asynchronous else EXIT_OPEN)


def _read_checks(source: TextIO) -> Any:
    try:
        return json.load(source)
    except (ValueError, RecursionError):
        raise CommandFailed(reason="the file of --accept is not valid JSON. Write a list of checks.") from None


def _scope_of(
    *, tools: tuple[str, ...], peers: tuple[str, ...], depth: int | None, no_approvals: bool
) -> dict[str, Any]:
    """Return what the options let the task do; empty if they restrict nothing."""
    found: dict[str, Any] = {"tools": list(tools) or None, "peers": list(peers) or None, "depth": depth}
    if no_approvals:
        found["approvals"] = False
    return {name: value for name, value in found.items() if value is not None}


def _find_peer_id(target: str, workspace: str | None) -> str:
    """Return the id of the peer with this id or unique name. Raises CommandFailed."""
    try:
        return str(UUID(target))
    except ValueError:
        return str(find_named(run_tool(_tool_spec("list_peers"), {}, workspace)["peers"], target, "peer")["id"])


def _exit_with_outcome(result: dict[str, Any], *, open_code: int) -> None:
    """Exit the process with the code for a task's outcome."""
    if not result["settled"]:
        sys.exit(open_code)
    if result["status"] != DelegationStatus.COMPLETED:
        detail = printable_line(f"{result['error']} {result['advice']}")
        click.echo(f"molecule: {result['reason'] or result['status']}: {detail}", err=True)
        sys.exit(EXIT_FAILED)


@click.command("status")
@click.argument("task_id")
@WORKSPACE_OPTION
def status(task_id: str, workspace: str | None) -> None:
    """Show the status, the timeline and the full result of a task. (Tool: check_task_status.)"""
    _print_task(run_tool(_tool_spec("check_task_status"), {"task_id": task_id}, workspace))


@click.command("cancel")
@click.argument("task_id")
@click.option("--reason", help="Reason, in one sentence. The agent that works on the task reads it.")
@WORKSPACE_OPTION
def cancel(task_id: str, reason: str | None, workspace: str | None) -> None:
    """Cancel a task that this workspace has delegated, and notify the peer. (Tool: cancel_task.)"""
    _print_task(run_tool(_tool_spec("cancel_task"), {"task_id": task_id, "reason": reason}, workspace))


def _print_task(result: dict[str, Any]) -> None:
    stuck = ", no activity for a long time" if result["stuck"] else ""
    click.echo(f"{result['task_id']}  {result['status']} ({result['phase']}{stuck})")
    for entry in result["timeline"]:
        detail = f"  {printable_line(entry['detail'])}" if entry["detail"] else ""
        late = "  (late, no effect)" if entry["late"] else ""
        click.echo(f"  {entry['at'][:19]}  {entry['fact']:<12} {entry['status']}/{entry['phase']}{detail}{late}")
    for entry in result["evidence"]:
        click.echo(f"check: {printable_line(entry)}")
    percent = "" if result["percent"] is None else f"{result['percent']} %"
    progress = ", ".join(each for each in (result["current_step"], percent, result["eta_hint"]) if each)
    if progress:
        click.echo(f"progress: {printable_line(progress)}")
    if result["error"]:
        click.echo(printable_line(f"{result['reason'] or 'error'}: {result['error']} {result['advice']}"))
    if result["result"]:
        click.echo(printable_text(result["result"]))
