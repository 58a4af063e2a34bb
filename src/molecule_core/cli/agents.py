"""`molecule agents`: starts and stops agents on machines with a runner, over the API of a running server."""

from pathlib import PurePath
from typing import Any

import click

from molecule_core.agent.runner.kinds import KINDS, runtime_of
from molecule_core.cli._client import add_command, org_option
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_named, find_org_id, find_workspace
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed

_WAIT_SECONDS = 25
Row = dict[str, Any]


@click.group("agents")
def command() -> None:
    """Start, stop and list agents on machines with a runner. AGENT is a workspace: a name, path or id."""


async def _find_org(api: ApiClient, org: str | None) -> str:
    return await find_org_id(api, org)


async def _list(api: ApiClient, org_id: str) -> None:
    """List the runners: their machines, what is installed there, and the agents that they run."""
    runners = await api.get(f"/orgs/{org_id}/runners")
    for runner in runners:
        seen = "gone" if runner["is_gone"] else "online"
        installed = ", ".join(f"{each['title']} {each['version']}".strip() for each in runner["installed"])
        name, machine = printable_line(runner["name"]), printable_line(runner["machine"]) or "never connected"
        click.echo(f"{name} ({machine}, {seen}): {printable_line(installed) or 'no agents installed'}")
        for agent in runner["agents"]:
            text = f": {printable_line(agent['text'])}" if agent["text"] else ""
            place = f"{agent['kind']} in {printable_line(agent['folder'])}"
            click.echo(f"  {agent['state']:<9}  {printable_line(agent['workspace_name'])}  {place}{text}")
        for session in runner["sessions"]:
            state = "connected" if session["is_connected"] else "not connected"
            click.echo(
                f"  in a terminal: {printable_line(session['title'])} in {printable_line(session['folder'])}, {state}"
            )
    if not runners:
        click.echo("No runners. `molecule up` starts one, and `molecule agents enrol NAME` enrols another machine.")


@click.argument("name")
async def _enrol(api: ApiClient, org_id: str, name: str) -> None:
    """Register a machine, and print the token of its runner, which is shown only once."""
    runner = await api.post(f"/orgs/{org_id}/runners", {"name": name})
    click.echo(f"{runner['id']}  {printable_line(runner['name'])}")
    click.echo(f"token, shown only once: {runner['token']}")
    click.echo("on that machine, with the token in MOLECULE_RUNNER_TOKEN: molecule runner --server ADDRESS")


@click.argument("runner")
async def _remove(api: ApiClient, org_id: str, runner: str) -> None:
    """Remove a runner: its token and those of its agents end."""
    found = find_named(await api.get(f"/orgs/{org_id}/runners"), runner, "runner")
    await api.call("DELETE", f"/orgs/{org_id}/runners/{found['id']}")
    click.echo("removed")


@click.argument("agent")
@click.option("--kind", help="Kind of agent, such as claude.  [default: the only one that is installed]")
@click.option("--folder", help="Folder on the machine.  [default: one with the agent's name, where it is allowed]")
@click.option("--mode", default="", help="Permission mode.  [default: that which asks]")
@click.option("--runner", help="Name or id of the runner.  [default: the only one]")
async def _start(
    api: ApiClient, org_id: str, agent: str, kind: str | None, folder: str | None, mode: str, runner: str | None
) -> None:
    """Start an agent for a workspace."""
    workspace = find_workspace(await api.get("/workspaces", org_id=org_id), agent)
    found = _choose_runner(await api.get(f"/orgs/{org_id}/runners"), runner)
    body = {
        "action": "start",
        "workspace_id": workspace["id"],
        "kind": kind or _choose_kind(found),
        "folder": folder or _default_folder(found, str(workspace["name"])),
        "mode": mode,
    }
    await _request(api, org_id, found, body)
    click.echo(f"started {printable_line(workspace['name'])} in {printable_line(body['folder'])}")


@click.argument("agent")
@click.option("--kind", help="Kind of agent, such as claude.  [default: the only one that is installed]")
@click.option("--folder", required=True, help="Folder on the machine in which a person starts it.")
@click.option("--runner", help="Name or id of the runner.  [default: the only one]")
async def _attach(api: ApiClient, org_id: str, agent: str, kind: str | None, folder: str, runner: str | None) -> None:
    """Connect an agent that a person starts in a folder: write its configuration there."""
    workspace = find_workspace(await api.get("/workspaces", org_id=org_id), agent)
    found = _choose_runner(await api.get(f"/orgs/{org_id}/runners"), runner)
    about = {"kind": kind or _choose_kind(found), "folder": folder}
    ended = await _request(api, org_id, found, {"action": "attach", "workspace_id": workspace["id"], **about})
    if about["kind"] in KINDS:  # its messages name the tools as that program does
        runtime = runtime_of(KINDS[about["kind"]])
        await api.call("PATCH", f"/workspaces/{workspace['id']}", body={"runtime": runtime})
    click.echo(printable_line(ended["text"]))


def _choose_runner(runners: list[Row], wanted: str | None) -> Row:
    if wanted is not None:
        return find_named(runners, wanted, "runner")
    if len(runners) != 1:
        names = ", ".join(printable_line(each["name"]) for each in runners) or "none"
        raise CommandFailed(
            reason=f"the runner must be named, because there is not exactly one: {names}. Set --runner."
        )
    return runners[0]


def _choose_kind(runner: Row) -> str:
    kinds = [str(each["kind"]) for each in runner["installed"]]
    if len(kinds) != 1:
        raise CommandFailed(reason=f"--kind is missing. Installed there: {', '.join(kinds) or 'none'}. Set --kind.")
    return kinds[0]


def _default_folder(runner: Row, name: str) -> str:
    if not runner["folders"]:
        raise CommandFailed(reason="--folder is missing, and the runner names no folder. Set --folder.")
    safe = "".join(each if each.isalnum() or each in "-_ " else "-" for each in name).strip() or "agent"
    return str(PurePath(runner["folders"][0]) / safe)


@click.argument("agent")
async def _stop(api: ApiClient, org_id: str, agent: str) -> None:
    """Stop an agent, or disconnect one that a person starts. Its token ends."""
    ended = await _request_of_agent(api, org_id, agent, "stop")
    click.echo(f"stopped. {printable_line(ended['text'])}" if ended["text"] else "stopped")


@click.argument("agent")
async def _restart(api: ApiClient, org_id: str, agent: str) -> None:
    """End the process of an agent, and start it again."""
    await _request_of_agent(api, org_id, agent, "restart")
    click.echo("restarted")


@click.argument("agent")
async def _logs(api: ApiClient, org_id: str, agent: str) -> None:
    """Print the end of an agent's output."""
    ended = await _request_of_agent(api, org_id, agent, "logs")
    for line in str(ended["output"]).splitlines():
        click.echo(printable_line(line))


async def _request_of_agent(api: ApiClient, org_id: str, agent: str, action: str) -> Row:
    runners = await api.get(f"/orgs/{org_id}/runners")
    agents = [{"id": each["workspace_id"], "name": each["workspace_name"]} for row in runners for each in row["agents"]]
    found = find_named(agents, agent, "agent of a runner")
    runner = next(row for row in runners if any(each["workspace_id"] == found["id"] for each in row["agents"]))
    return await _request(api, org_id, runner, {"action": action, "workspace_id": found["id"]})


async def _request(api: ApiClient, org_id: str, runner: Row, body: Row) -> Row:
    """Make a request, and wait for its outcome. Raises CommandFailed."""
    place = f"/orgs/{org_id}/runners/{runner['id']}/requests"
    made = await api.post(place, body)
    ended: Row = await api.get(f"{place}/{made['id']}", wait=_WAIT_SECONDS)
    if ended["status"] == "failed":
        raise CommandFailed(reason=f"{printable_line(ended['text'])}.")
    if ended["status"] != "done":
        raise CommandFailed(
            reason=f"the runner {printable_line(runner['name'])!r} has not confirmed this in {_WAIT_SECONDS} seconds. "
            "Start `molecule runner` on its machine, and look with `molecule agents list`."
        )
    return ended


for _name, _work in (
    ("list", _list),
    ("start", _start),
    ("attach", _attach),
    ("stop", _stop),
    ("restart", _restart),
    ("logs", _logs),
    ("enrol", _enrol),
    ("remove", _remove),
):
    add_command(command, _name, org_option(_work), _find_org, by="org")
