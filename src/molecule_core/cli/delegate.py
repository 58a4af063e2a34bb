"""`molecule delegate`, `status` and `cancel`: delegation from a shell, for runtimes without MCP."""

import sys
from typing import Any

import click

from molecule_core.cli.tool import WORKSPACE_OPTION, read_standard_input, run_tool
from molecule_core.common.errors import CommandFailed
from molecule_core.tools.registry import find_tool
from molecule_core.tools.schemas.delegations import DEFAULT_RESULT_WAIT_SECONDS, MAX_RESULT_WAIT_SECONDS
from molecule_core.tools.spec import ToolSpec

EXIT_FAILED, EXIT_OPEN = 1, 3
_COMPLETED = "completed"


def _tool_spec(name: str) -> ToolSpec:
    spec = find_tool(name)
    if spec is None:
        raise LookupError(name)
    return spec


@click.command("delegate")
@click.argument("target", metavar="WORKSPACE")
@click.argument("task", required=False)
@click.option("--async", "asynchronous", is_flag=True, help="Do not wait: the result comes into the inbox.")
@click.option(
    "--wait",
    type=click.IntRange(0, MAX_RESULT_WAIT_SECONDS),
    help=f"Seconds to wait for the result.  [default: {DEFAULT_RESULT_WAIT_SECONDS}]",
)
@click.option("--deadline", type=click.IntRange(1), help="Seconds after which it has failed if it is not done.")
@WORKSPACE_OPTION
def delegate(
    target: str, task: str | None, asynchronous: bool, wait: int | None, deadline: int | None, workspace: str | None
) -> None:
    """Give a peer a task and wait for its result. (The tools delegate_task and delegate_task_async.)

    TASK is read from standard input if it is - or left out. The first line of standard output is the task_id and the
    status, the rest is the result. Exit code 0 if the task is completed, or started with --async; 1 if it was rejected
    or has failed; 2 for wrong arguments; 3 if it is not completed yet: the result will arrive in the inbox."""
    if asynchronous and wait is not None:
        raise CommandFailed(reason="--async does not wait; leave one of --async and --wait out")
    text = read_standard_input() if task in (None, "-") else task
    arguments: dict[str, Any] = {"workspace_id": target, "task": text, "deadline_seconds": deadline}
    if not asynchronous:
        arguments["wait"] = wait
    result = run_tool(_tool_spec("delegate_task_async" if asynchronous else "delegate_task"), arguments, workspace)
    click.echo(f"{result['task_id']}  {result['status']}")
    if result["result"]:
        click.echo(result["result"])
    if result["note"]:
        click.echo(result["note"], err=True)
    _exit_with_outcome(result, open_code=0 if asynchronous else EXIT_OPEN)


def _exit_with_outcome(result: dict[str, Any], *, open_code: int) -> None:
    """Exit the process with the code for a task's outcome."""
    if not result["settled"]:
        sys.exit(open_code)
    if result["status"] != _COMPLETED:
        detail = " ".join(f"{result['error']} {result['advice']}".split())
        click.echo(f"molecule: {result['reason'] or result['status']}: {detail}", err=True)
        sys.exit(EXIT_FAILED)


@click.command("status")
@click.argument("task_id")
@WORKSPACE_OPTION
def status(task_id: str, workspace: str | None) -> None:
    """Show the status, the timeline and the whole result of a task. (The tool check_task_status.)"""
    _print_task(run_tool(_tool_spec("check_task_status"), {"task_id": task_id}, workspace))


@click.command("cancel")
@click.argument("task_id")
@click.option("--reason", help="Why, in a sentence; whoever works on it reads it.")
@WORKSPACE_OPTION
def cancel(task_id: str, reason: str | None, workspace: str | None) -> None:
    """Cancel a task that this workspace has delegated, and notify the peer. (The tool cancel_task.)"""
    _print_task(run_tool(_tool_spec("cancel_task"), {"task_id": task_id, "reason": reason}, workspace))


def _print_task(result: dict[str, Any]) -> None:
    stuck = ", no sign of life for long" if result["stuck"] else ""
    click.echo(f"{result['task_id']}  {result['status']} ({result['phase']}{stuck})")
    for entry in result["timeline"]:
        detail = f"  {' '.join(entry['detail'].split())}" if entry["detail"] else ""
        late = "  (late: without effect)" if entry["late"] else ""
        click.echo(f"  {entry['at'][:19]}  {entry['fact']:<12} {entry['status']}/{entry['phase']}{detail}{late}")
    percent = "" if result["percent"] is None else f"{result['percent']} %"
    progress = ", ".join(each for each in (result["current_step"], percent, result["eta_hint"]) if each)
    if progress:
        click.echo(f"progress: {progress}")
    if result["error"]:
        click.echo(f"{result['reason'] or 'error'}: {result['error']} {result['advice']}".rstrip())
    if result["result"]:
        click.echo(result["result"])
