"""`molecule instructions`: templates of the instructions for agents, over the API of a running server."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
import msgspec

from molecule_core.cli._options import has_admin_token, load_cli_settings, missing_token_reason, state_options
from molecule_core.cli._template_metrics import set_canary, show_metrics
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import CommandFailed
from molecule_core.server.state_folder import ensure_admin_token

_KINDS = click.Choice(
    "canvas_user peer_agent delegation delegation_result approval_request approval_decision broadcast "
    "chat_upload_receive system".split()
)
_FORMS = click.Choice(["full", "compact", "delta"])
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group("instructions")
def command() -> None:
    """Templates of instructions, which say with each message how to answer it."""


class _TemplateClient:
    """A client and the paths of one organisation."""

    def __init__(self, api: ApiClient, org_id: str) -> None:
        self.api = api
        self.org_id = org_id
        self.templates_path = f"/orgs/{org_id}/instruction-templates"

    async def find_workspace_id(self, wanted: str) -> str:
        """Return the id of a workspace, by its id or by a name that only one has."""
        rows = await self.api.get("/workspaces")
        candidates = [each for each in rows if each["org_id"] == self.org_id]
        found = [str(each["id"]) for each in candidates if wanted in (each["id"], each["name"])]
        if len(found) == 1:
            return found[0]
        raise CommandFailed(reason=f"there are {len(found)} workspaces {wanted!r}; take an id of GET /workspaces")


def _server_command(name: str) -> Callable[[Callable[..., Awaitable[None]]], click.Command]:
    """Return a decorator for commands that call the server.

    The function gets a client with the organisation's paths."""

    def decorate(work: Callable[..., Awaitable[None]]) -> click.Command:
        @wraps(work)
        def run(org: str | None, state_dir: str | None, database: str | None, port: int | None, **rest: Any) -> None:
            asyncio.run(_call_server(work, org, rest, state_dir=state_dir, database=database, port=port))

        run = click.option("--org", help="The organisation's name, if there are several.")(run)
        run = click.option("--port", type=int, help="Of the running server.  [default: 8080]")(run)
        return command.command(name)(state_options(run))

    return decorate


async def _call_server(
    work: Callable[..., Awaitable[None]], org: str | None, rest: dict[str, Any], **flags: Any
) -> None:
    settings = load_cli_settings(**flags)
    if not has_admin_token(settings):
        raise CommandFailed(reason=f"{missing_token_reason(settings)}; name the right --state-dir")
    try:
        async with ApiClient(settings.url, ensure_admin_token(settings)) as api:
            await work(_TemplateClient(api, _find_org_id(await api.get("/orgs"), org)), **rest)
    except ApiError as error:
        raise CommandFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise CommandFailed(reason=f"what answers on {settings.url} is no Molecule server; name its --port") from None
    except NoAnswerError:
        raise CommandFailed(reason=f"no server answers on {settings.url}; start it, or name its --port") from None


def _find_org_id(orgs: list[dict[str, Any]], name: str | None) -> str:
    for each in orgs:
        if name in (None, each["name"]):
            return str(each["id"])
    names = ", ".join(str(each["name"]) for each in orgs)
    raise CommandFailed(reason=f"there is no organisation named {name!r}; there are: {names}")


async def _list(client: _TemplateClient) -> None:
    """List the templates, each in the version that is in force."""
    for row in await client.api.get(client.templates_path):
        template = row["template"]
        origin = "edited" if row["edited"] else "built in" if template["built_in"] else "own"
        trial = f"  on trial: version {row['canary']} with {row['percent']}%" if row["canary"] else ""
        users = f"chosen by {row['used_by']}, default for {row['default_for']}"
        click.echo(f"{template['id']}  version {template['version']}  {origin}  {users}{trial}")


@click.argument("template_id")
@click.option("--versions", is_flag=True, help="List its versions instead.")
async def _show(client: _TemplateClient, template_id: str, versions: bool) -> None:
    """Print a template as JSON, as `set` takes it."""
    if versions:
        for each in await client.api.get(f"{client.templates_path}/{template_id}/versions"):
            note = f"  {each['note']}" if each["note"] else ""
            click.echo(f"{each['version']}  {each['created_at']}  {each['created_by']}{note}")
        return
    template = (await client.api.get(f"{client.templates_path}/{template_id}"))["row"]["template"]
    draft = {name: template[name] for name in ("runtime", "extends", "parts")}
    click.echo(msgspec.json.format(msgspec.json.encode(draft), indent=2).decode())


@click.argument("template_id")
@click.argument("file", type=_FILE)
@click.option("--note", help="Why.")
@click.option("--later", is_flag=True, help="Save it, and leave the version in force as it is.")
async def _set(client: _TemplateClient, template_id: str, file: Path, note: str | None, later: bool) -> None:
    """Save a new version from a file (- for standard input): JSON as `show` prints it, or a plain text, which adds to
    what the template of the workspace's runtime says."""
    body = {**_parse_draft(_read_text(file)), "note": note, "in_force": not later}
    saved = await client.api.call("PUT", f"{client.templates_path}/{template_id}", body=body)
    _print_warnings(saved["warnings"])
    click.echo(f"{template_id} version {saved['template']['version']} is {'saved' if later else 'in force'}")


@click.argument("template_id")
@click.argument("version", type=click.IntRange(min=1))
async def _restore(client: _TemplateClient, template_id: str, version: int) -> None:
    """Put a version in force."""
    await client.api.post(f"{client.templates_path}/{template_id}/restore", {"version": version})
    click.echo(f"{template_id} version {version} is in force")


@click.argument("file", type=_FILE)
async def _check(client: _TemplateClient, file: Path) -> None:
    """Say whether a file could be saved, and how much it would say."""
    result = await client.api.post(
        f"{client.templates_path}/preview", {**_preview_draft(_read_text(file)), "form": "full"}
    )
    _print_warnings(result["warnings"])
    click.echo(f"it can be saved; with a user's message it says about {result['tokens']} tokens")


@click.argument("workspace")
@click.option("--file", type=_FILE, help="As if this were the workspace's template.")
@click.option("--template", "template_id", help="As if it had chosen this one.")
@click.option("--kind", type=_KINDS, default="canvas_user", show_default=True)
@click.option("--form", type=_FORMS, default="full", show_default=True)
async def _preview(
    client: _TemplateClient, workspace: str, file: Path | None, template_id: str | None, kind: str, form: str
) -> None:
    """Print the exact instructions that the agent of WORKSPACE (a name or an id) would get."""
    query: dict[str, Any] = {} if file is None else _preview_draft(_read_text(file))
    if template_id is not None:
        query["template_id"] = template_id
    query |= {"workspace_id": await client.find_workspace_id(workspace), "kind": kind, "form": form}
    result = await client.api.post(f"{client.templates_path}/preview", query)
    _print_warnings(result["warnings"])
    click.echo(result["text"])
    click.echo(f"({result['template']}, {result['form']}, about {result['tokens']} tokens)", err=True)


@click.argument("workspace")
@click.argument("template_id", required=False)
@click.option("--file", type=_FILE, help="A text, or JSON, for this workspace alone.")
@click.option("--none", is_flag=True, help="That of its runtime again.")
async def _assign(
    client: _TemplateClient, workspace: str, template_id: str | None, file: Path | None, none: bool
) -> None:
    """Choose the template of WORKSPACE (a name or an id)."""
    path = f"/cp/admin/workspace/{await client.find_workspace_id(workspace)}/instruction-template"
    if [template_id is not None, file is not None, none].count(True) != 1:
        raise CommandFailed(reason="name a TEMPLATE_ID, a --file or --none: exactly one of them")
    if none:
        result = await client.api.call("DELETE", path)
    elif file is None:
        result = await client.api.post(path, {"template_id": template_id})
    else:
        draft = _preview_draft(_read_text(file))
        result = await client.api.post(path, {"inline_template": draft.get("inline_template") or draft["parts"]})
    _print_warnings(result["warnings"])
    click.echo(f"{workspace} is told with {result['template']['id']} version {result['template']['version']}")


def _read_text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error}") from None


def _parse_draft(text: str) -> dict[str, Any]:
    """Parse a template: JSON, or a plain text, which becomes one line."""
    if not text.lstrip().startswith("{") or text.lstrip().startswith(("{{", "{%")):
        return {"parts": {"lines": [text.strip("\n")]}}
    try:
        draft = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CommandFailed(reason=f"it begins as JSON, and is none: {error}") from None
    return draft if "parts" in draft else {"parts": draft}


def _preview_draft(text: str) -> dict[str, Any]:
    """Parse a template for a preview."""
    draft = _parse_draft(text)
    return {name: draft[name] for name in ("parts", "extends") if name in draft}


def _print_warnings(warnings: list[str]) -> None:
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
    "figures": show_metrics,
    "canary": set_canary,
}
for _name, _work in _VERBS.items():
    _server_command(_name)(_work)
