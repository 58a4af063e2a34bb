"""`molecule instructions`: templates of the instructions for agents, over the API of a running server."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from molecule_core.cli._client import add_command, org_option
from molecule_core.cli._lookup import find_org_id, find_workspace
from molecule_core.cli._template_metrics import set_canary, show_metrics, templates_path
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed

_KINDS = click.Choice(
    "canvas_user peer_agent delegation delegation_result approval_request approval_decision broadcast "
    "chat_upload_receive system".split()
)
_FORMS = click.Choice(["full", "compact", "delta"])
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group("instructions")
def command() -> None:
    """List, edit and preview instruction templates: the text sent with each message that explains how to answer it."""


async def _find_workspace_id(api: ApiClient, org_id: str, wanted: str) -> str:
    rows = await api.get("/workspaces")
    return str(find_workspace((each for each in rows if each["org_id"] == org_id), wanted)["id"])


async def _list(api: ApiClient, org_id: str) -> None:
    """List the templates with their active versions."""
    for row in await api.get(templates_path(org_id)):
        template = row["template"]
        origin = "edited" if row["edited"] else "built in" if template["built_in"] else "custom"
        trial = f"  canary: version {row['canary']} with {row['percent']} %" if row["canary"] else ""
        users = f"chosen by {row['used_by']}, default for {row['default_for']}"
        click.echo(f"{template['id']}  version {template['version']}  {origin}  {users}{trial}")


@click.argument("template_id")
@click.option("--versions", is_flag=True, help="List the versions of the template instead.")
async def _show(api: ApiClient, org_id: str, template_id: str, versions: bool) -> None:
    """Print a template as JSON, in the format that `set` reads."""
    if versions:
        for each in await api.get(f"{templates_path(org_id)}/{template_id}/versions"):
            note = f"  {each['note']}" if each["note"] else ""
            click.echo(f"{each['version']}  {each['created_at']}  {each['created_by']}{note}")
        return
    template = (await api.get(f"{templates_path(org_id)}/{template_id}"))["row"]["template"]
    draft = {name: template[name] for name in ("runtime", "extends", "parts")}
    click.echo(msgspec.json.format(msgspec.json.encode(draft), indent=2).decode())


@click.argument("template_id")
@click.argument("file", type=_FILE)
@click.option("--note", help="Note about the change, shown in the list of versions.")
@click.option("--later", is_flag=True, help="Save the version without activating it.")
async def _set(api: ApiClient, org_id: str, template_id: str, file: Path, note: str | None, later: bool) -> None:
    """Save a new version of a template from FILE (- for standard input).

    FILE is JSON as printed by `show`, or plain text, which is added to the template of the workspace's runtime."""
    body = {**_parse_draft(_read_text(file)), "note": note, "in_force": not later}
    saved = await api.call("PUT", f"{templates_path(org_id)}/{template_id}", body=body)
    _print_warnings(saved["warnings"])
    click.echo(f"{template_id} version {saved['template']['version']} is {'saved' if later else 'active'}")


@click.argument("template_id")
@click.argument("version", type=click.IntRange(min=1))
async def _restore(api: ApiClient, org_id: str, template_id: str, version: int) -> None:
    """Activate an earlier version of a template."""
    await api.post(f"{templates_path(org_id)}/{template_id}/restore", {"version": version})
    click.echo(f"{template_id} version {version} is active")


@click.argument("file", type=_FILE)
async def _check(api: ApiClient, org_id: str, file: Path) -> None:
    """Check whether FILE is a valid template, and print the size of its instructions."""
    result = await api.post(f"{templates_path(org_id)}/preview", {**_preview_draft(_read_text(file)), "form": "full"})
    _print_warnings(result["warnings"])
    click.echo(f"valid; the instructions of a user's message have about {result['tokens']} tokens")


@click.argument("workspace")
@click.option("--file", type=_FILE, help="Use this file as the template.")
@click.option("--template", "template_id", help="Use this template (its id).")
@click.option("--kind", type=_KINDS, default="canvas_user", show_default=True, help="Kind of the example message.")
@click.option("--form", type=_FORMS, default="full", show_default=True, help="Form of the instructions.")
async def _preview(
    api: ApiClient, org_id: str, workspace: str, file: Path | None, template_id: str | None, kind: str, form: str
) -> None:
    """Print the exact instructions that the agent of WORKSPACE (a name or an id) would receive."""
    query: dict[str, Any] = {} if file is None else _preview_draft(_read_text(file))
    if template_id is not None:
        query["template_id"] = template_id
    query |= {"workspace_id": await _find_workspace_id(api, org_id, workspace), "kind": kind, "form": form}
    result = await api.post(f"{templates_path(org_id)}/preview", query)
    _print_warnings(result["warnings"])
    click.echo(result["text"])
    click.echo(f"({result['template']}, {result['form']}, about {result['tokens']} tokens)", err=True)


@click.argument("workspace")
@click.argument("template_id", required=False)
@click.option("--file", type=_FILE, help="File with a template for this workspace only: plain text or JSON.")
@click.option("--none", is_flag=True, help="Reset it to the template of the runtime.")
async def _assign(
    api: ApiClient, org_id: str, workspace: str, template_id: str | None, file: Path | None, none: bool
) -> None:
    """Set the template of WORKSPACE (a name or an id)."""
    path = f"/cp/admin/workspace/{await _find_workspace_id(api, org_id, workspace)}/instruction-template"
    if [template_id is not None, file is not None, none].count(True) != 1:
        raise CommandFailed(reason="exactly one of TEMPLATE_ID, --file and --none is required.")
    if none:
        result = await api.call("DELETE", path)
    elif file is None:
        result = await api.post(path, {"template_id": template_id})
    else:
        draft = _preview_draft(_read_text(file))
        result = await api.post(path, {"inline_template": draft.get("inline_template") or draft["parts"]})
    _print_warnings(result["warnings"])
    click.echo(f"{workspace} uses {result['template']['id']} version {result['template']['version']}")


def _read_text(file: Path) -> str:
    try:
        return sys.stdin.read().removeprefix("\ufeff") if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(reason=f"{file} cannot be read: {error}") from None


def _parse_draft(text: str) -> dict[str, Any]:
    """Parse a template: JSON, or a plain text, which becomes one line."""
    if not text.lstrip().startswith("{") or text.lstrip().startswith(("{{", "{%")):
        return {"parts": {"lines": [text.strip("\n")]}}
    try:
        draft = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise CommandFailed(reason=f"the file starts like JSON, but is not valid JSON: {error}") from None
    return draft if "parts" in draft else {"parts": draft}


def _preview_draft(text: str) -> dict[str, Any]:
    """Parse a template for a preview."""
    draft = _parse_draft(text)
    return {name: draft[name] for name in ("parts", "extends") if name in draft}


def _print_warnings(warnings: list[str]) -> None:
    for each in warnings:
        click.echo(f"warning: {each}", err=True)


_VERBS = {
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
    add_command(command, _name, org_option(_work), find_org_id, by="org")
