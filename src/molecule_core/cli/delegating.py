"""`molecule delegate`, `status` and `cancel`: a runtime without MCP gives work to peers from its shell."""

import sys
from typing import Any

import click

from molecule_core.cli.tool import WORKSPACE, called, standard_input
from molecule_core.ground.errors import CommandFailed
from molecule_core.wire.delegationtypes import LONGEST_WAIT, USUAL_WAIT
from molecule_core.wire.tools import find
from molecule_core.wire.toolspec import ToolSpec

FAILED, NOT_SETTLED = 1, 3
_COMPLETED = "completed"


def _spec(name: str) -> ToolSpec:
    spec = find(name)
    if spec is None:
        raise LookupError(name)
    return spec


@click.command("delegate")
@click.argument("target", metavar="WORKSPACE")
@click.argument("task", required=False)
@click.option("--async", "asynchronous", is_flag=True, help="Do not wait: the result comes into the inbox.")
@click.option(
    "--wait",
    type=click.IntRange(0, LONGEST_WAIT),
    help=f"Seconds to wait for the result.  [default: {USUAL_WAIT}]",
)
@click.option("--deadline", type=click.IntRange(1), help="Seconds after which it has failed if it is not done.")
@WORKSPACE
def delegate(
    target: str, task: str | None, asynchronous: bool, wait: int | None, deadline: int | None, workspace: str | None
) -> None:
    """Give a peer a task and wait for its result. (The tools delegate_task and delegate_task_async.)

    TASK is read from standard input if it is - or left out. The first line of standard output is the task_id and how
    the task stands, the rest its result. Ends with 0 if it is done, or begun with --async; with 1 if it was refused or
    has failed; with 2 if it was called wrongly; with 3 if it is not done yet: the result comes into the inbox."""
    if asynchronous and wait is not None:
        raise CommandFailed(reason="--async does not wait; leave one of --async and --wait out")
    text = standard_input() if task in (None, "-") else task
    given: dict[str, Any] = {"workspace_id": target, "task": text, "deadline_seconds": deadline}
    if not asynchronous:
        given["wait"] = wait
    told = called(_spec("delegate_task_async" if asynchronous else "delegate_task"), given, workspace)
    click.echo(f"{told['task_id']}  {told['status']}")
    if told["result"]:
        click.echo(told["result"])
    if told["note"]:
        click.echo(told["note"], err=True)
    _end(told, open_is=0 if asynchronous else NOT_SETTLED)


def _end(told: dict[str, Any], *, open_is: int) -> None:
    """Ends the process with what a task has come to."""
    if not told["settled"]:
        sys.exit(open_is)
    if told["status"] != _COMPLETED:
        said = " ".join(f"{told['error']} {told['advice']}".split())
        click.echo(f"molecule: {told['reason'] or told['status']}: {said}", err=True)
        sys.exit(FAILED)


@click.command("status")
@click.argument("task_id")
@WORKSPACE
def status(task_id: str, workspace: str | None) -> None:
    """Tell how a task stands: its time line, and the whole result. (The tool check_task_status.)"""
    _show(called(_spec("check_task_status"), {"task_id": task_id}, workspace))


@click.command("cancel")
@click.argument("task_id")
@click.option("--reason", help="Why, in a sentence; whoever works on it reads it.")
@WORKSPACE
def cancel(task_id: str, reason: str | None, workspace: str | None) -> None:
    """End a task that one has delegated; the peer is told. (The tool cancel_task.)"""
    _show(called(_spec("cancel_task"), {"task_id": task_id, "reason": reason}, workspace))


def _show(told: dict[str, Any]) -> None:
    stuck = ", no sign of life for long" if told["stuck"] else ""
    click.echo(f"{told['task_id']}  {told['status']} ({told['phase']}{stuck})")
    for entry in told["timeline"]:
        detail = f"  {' '.join(entry['detail'].split())}" if entry["detail"] else ""
        late = "  (late: without effect)" if entry["late"] else ""
        click.echo(f"  {entry['at'][:19]}  {entry['fact']:<12} {entry['status']}/{entry['phase']}{detail}{late}")
    percent = "" if told["percent"] is None else f"{told['percent']} %"
    far = ", ".join(each for each in (told["current_step"], percent, told["eta_hint"]) if each)
    if far:
        click.echo(f"progress: {far}")
    if told["error"]:
        click.echo(f"{told['reason'] or 'error'}: {told['error']} {told['advice']}".rstrip())
    if told["result"]:
        click.echo(told["result"])
