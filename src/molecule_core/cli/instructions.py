"""`molecule instructions`: what agents are told with each message, over the running server's public API."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from molecule_core.cli.figures import canary, figures
from molecule_core.cli.options import (
    admin_token,
    has_admin_token,
    settings_from,
    state_options,
    without_admin_token,
)
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground.errors import CommandFailed

_KINDS = click.Choice(
    "canvas_user peer_agent delegation delegation_result approval_request approval_decision broadcast "
    "chat_upload_receive system".split()
)
_FORMS = click.Choice(["full", "compact", "delta"])
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group("instructions")
def command() -> None:
    """Templates of instructions: what each message tells its agent about how to answer."""


class _Desk:
    """A client, and the paths of one organisation."""

    def __init__(self, api: Api, org_id: str) -> None:
        self.api = api
        self.org_id = org_id
        self.every = f"/orgs/{org_id}/instruction-templates"

    async def workspace(self, wanted: str) -> str:
        """The id of a workspace by its id, or by a name that only one has."""
        rows = await self.api.get("/workspaces")
        mine = [each for each in rows if each["org_id"] == self.org_id]
        found = [str(each["id"]) for each in mine if wanted in (each["id"], each["name"])]
        if len(found) == 1:
            return found[0]
        raise CommandFailed(reason=f"there are {len(found)} workspaces {wanted!r}; take an id of GET /workspaces")


def _verb(name: str) -> Callable[[Callable[..., Awaitable[None]]], click.Command]:
    """A verb that speaks to the running server. Its work gets a client with the organisation's paths."""

    def made(work: Callable[..., Awaitable[None]]) -> click.Command:
        @wraps(work)
        def run(org: str | None, state_dir: str | None, database: str | None, port: int | None, **rest: Any) -> None:
            asyncio.run(_spoken(work, org, rest, state_dir=state_dir, database=database, port=port))

        run = click.option("--org", help="The organisation's name, if there are several.")(run)
        run = click.option("--port", type=int, help="Of the running server.  [default: 8080]")(run)
        return command.command(name)(state_options(run))

    return made


async def _spoken(work: Callable[..., Awaitable[None]], org: str | None, rest: dict[str, Any], **flags: Any) -> None:
    settings = settings_from(**flags)
    if not has_admin_token(settings):
        raise CommandFailed(reason=f"{without_admin_token(settings)}; name the right --state-dir")
    try:
        async with Api(settings.url, admin_token(settings)) as api:
            await work(_Desk(api, _pick(await api.get("/orgs"), org)), **rest)
    except ApiError as error:
        raise CommandFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise CommandFailed(reason=f"what answers on {settings.url} is no Molecule server; name its --port") from None
    except NoAnswer:
        raise CommandFailed(reason=f"no server answers on {settings.url}; start it, or name its --port") from None


def _pick(orgs: list[dict[str, Any]], name: str | None) -> str:
    for each in orgs:
        if name in (None, each["name"]):
            return str(each["id"])
    names = ", ".join(str(each["name"]) for each in orgs)
    raise CommandFailed(reason=f"there is no organisation named {name!r}; there are: {names}")


async def _list(desk: _Desk) -> None:
    """List the templates, each in the version that is in force."""
    for row in await desk.api.get(desk.every):
        template = row["template"]
        origin = "edited" if row["edited"] else "built in" if template["built_in"] else "own"
        trial = f"  on trial: version {row['canary']} with {row['percent']}%" if row["canary"] else ""
        users = f"chosen by {row['used_by']}, default for {row['default_for']}"
        click.echo(f"{template['id']}  version {template['version']}  {origin}  {users}{trial}")


@click.argument("template_id")
@click.option("--versions", is_flag=True, help="List its versions instead.")
async def _show(desk: _Desk, template_id: str, versions: bool) -> None:
    """Print a template as JSON, as `set` takes it."""
    if versions:
        for each in await desk.api.get(f"{desk.every}/{template_id}/versions"):
            note = f"  {each['note']}" if each["note"] else ""
            click.echo(f"{each['version']}  {each['created_at']}  {each['created_by']}{note}")
        return
    template = (await desk.api.get(f"{desk.every}/{template_id}"))["row"]["template"]
    shown = {name: template[name] for name in ("runtime", "extends", "parts")}
    click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())


@click.argument("template_id")
@click.argument("file", type=_FILE)
@click.option("--note", help="Why.")
@click.option("--later", is_flag=True, help="Save it, and leave the version in force as it is.")
async def _set(desk: _Desk, template_id: str, file: Path, note: str | None, later: bool) -> None:
    """Save a new version from a file (- for standard input): JSON as `show` prints it, or a plain text, which adds to
    what the template of the workspace's runtime says."""
    body = {**_draft(_read(file)), "note": note, "in_force": not later}
    saved = await desk.api.call("PUT", f"{desk.every}/{template_id}", body=body)
    _warn(saved["warnings"])
    click.echo(f"{template_id} version {saved['template']['version']} is {'saved' if later else 'in force'}")


@click.argument("template_id")
@click.argument("version", type=click.IntRange(min=1))
async def _restore(desk: _Desk, template_id: str, version: int) -> None:
    """Put a version in force."""
    await desk.api.post(f"{desk.every}/{template_id}/restore", {"version": version})
    click.echo(f"{template_id} version {version} is in force")


@click.argument("file", type=_FILE)
async def _check(desk: _Desk, file: Path) -> None:
    """Say whether a file could be saved, and how much it would say."""
    told = await desk.api.post(f"{desk.every}/preview", {**_tried(_read(file)), "form": "full"})
    _warn(told["warnings"])
    click.echo(f"it can be saved; with a user's message it says about {told['tokens']} tokens")


@click.argument("workspace")
@click.option("--file", type=_FILE, help="As if this were the workspace's template.")
@click.option("--template", "template_id", help="As if it had chosen this one.")
@click.option("--kind", type=_KINDS, default="canvas_user", show_default=True)
@click.option("--form", type=_FORMS, default="full", show_default=True)
async def _preview(
    desk: _Desk, workspace: str, file: Path | None, template_id: str | None, kind: str, form: str
) -> None:
    """Print what the agent of WORKSPACE (a name or an id) would be told, to the last byte."""
    wish: dict[str, Any] = {} if file is None else _tried(_read(file))
    if template_id is not None:
        wish["template_id"] = template_id
    wish |= {"workspace_id": await desk.workspace(workspace), "kind": kind, "form": form}
    told = await desk.api.post(f"{desk.every}/preview", wish)
    _warn(told["warnings"])
    click.echo(told["text"])
    click.echo(f"({told['template']}, {told['form']}, about {told['tokens']} tokens)", err=True)


@click.argument("workspace")
@click.argument("template_id", required=False)
@click.option("--file", type=_FILE, help="A text, or JSON, for this workspace alone.")
@click.option("--none", is_flag=True, help="That of its runtime again.")
async def _assign(desk: _Desk, workspace: str, template_id: str | None, file: Path | None, none: bool) -> None:
    """Choose the template of WORKSPACE (a name or an id)."""
    path = f"/cp/admin/workspace/{await desk.workspace(workspace)}/instruction-template"
    if [template_id is not None, file is not None, none].count(True) != 1:
        raise CommandFailed(reason="name a TEMPLATE_ID, a --file or --none: exactly one of them")
    if none:
        told = await desk.api.call("DELETE", path)
    elif file is None:
        told = await desk.api.post(path, {"template_id": template_id})
    else:
        draft = _tried(_read(file))
        told = await desk.api.post(path, {"inline_template": draft.get("inline_template") or draft["parts"]})
    _warn(told["warnings"])
    click.echo(f"{workspace} is told with {told['template']['id']} version {told['template']['version']}")


def _read(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error}") from None


def _draft(text: str) -> dict[str, Any]:
    """What a file says of a template."""
    if not text.lstrip().startswith("{") or text.lstrip().startswith(("{{", "{%")):
        return {"parts": {"lines": [text.strip("\n")]}}
    try:
        said = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CommandFailed(reason=f"it begins as JSON, and is none: {error}") from None
    return said if "parts" in said else {"parts": said}


def _tried(text: str) -> dict[str, Any]:
    """The same, for a preview."""
    draft = _draft(text)
    return {name: draft[name] for name in ("parts", "extends") if name in draft}


def _warn(warnings: list[str]) -> None:
    for each in warnings:
        click.echo(f"warning: {each}", err=True)


_VERBS: dict[str, Callable[..., Awaitable[None]]] = {
    "list": _list,
    "show": _show,
    "set": _set,
    "restore": _restore,
    "check": _check,
    "preview": _preview,
    "assign": _assign,
    "figures": figures,
    "canary": canary,
}
for _name, _work in _VERBS.items():
    _verb(_name)(_work)
