"""`molecule people`: the people of an organisation and their invitations, over the API of a running server."""

import os
from pathlib import Path

import click

from molecule_core.cli._client import add_command, org_option
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_named, find_org_id
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed

_ROLE = click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "owner"]),
    default="operator",
    help="What the person may do.  [default: operator]",
)


@click.group("people")
def command() -> None:
    """List, invite and remove the people of an organisation. PERSON is a name or an id."""


async def _find_path(api: ApiClient, org: str | None) -> str:
    return f"/orgs/{await find_org_id(api, org)}"


async def _list(api: ApiClient, path: str) -> None:
    """List people and open invitations."""
    for row in await api.get(f"{path}/people"):
        click.echo(f"{row['id']}  {row['role']:<8}  {printable_line(row['name'])}")
    for row in await api.get(f"{path}/invitations"):
        click.echo(f"{row['id']}  {row['role']:<8}  {printable_line(row['name'])}: invited until {row['expires_at']}")


@click.argument("name")
@_ROLE
async def _invite(api: ApiClient, path: str, name: str, role: str) -> None:
    """Invite a person, and print a link that works once."""
    invitation = await api.post(f"{path}/invitations", {"name": name, "role": role})
    click.echo(f"{invitation['url']}\n(works once, until {invitation['expires_at']})")


@click.argument("name")
@_ROLE
async def _add(api: ApiClient, path: str, name: str, role: str) -> None:
    """Add a person who uses a token, such as a script, and print the token, which is shown only once."""
    person = await api.post(f"{path}/people", {"name": name, "role": role})
    click.echo(f"{person['id']}  {printable_line(person['name'])}\ntoken, shown only once: {person['auth_token']}")


@click.argument("person")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the token to this new file, which only you can read, instead of printing it.",
)
async def _create_token(api: ApiClient, path: str, person: str, file: Path | None) -> None:
    """Create a further token of a person, such as for an editor, and print it. It is shown only once."""
    found = find_named(await api.get(f"{path}/people"), person)
    if file is not None:
        _create_private_file(file)
    token = (await api.post(f"{path}/people/{found['id']}/tokens"))["auth_token"]
    if file is None:
        click.echo(f"token, shown only once: {token}")
        return
    _write_token(file, token)
    click.echo(f"the token of {printable_line(found['name'])} is in {file}")


def _write_token(file: Path, token: str) -> None:
    file.write_text(f"{token}\n", encoding="ascii")


def _create_private_file(file: Path) -> None:
    """Create an empty file that only its owner reads. Raises CommandFailed if it exists: it may hold another token."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise CommandFailed(reason=f"{file} exists already. Name a new file.") from None


@click.argument("person")
async def _remove(api: ApiClient, path: str, person: str) -> None:
    """Remove a person, or withdraw an invitation: sessions, tokens and links of the person end."""
    people, invitations = await api.get(f"{path}/people"), await api.get(f"{path}/invitations")
    found = find_named([*people, *invitations], person)
    is_person = found in people
    await api.call("DELETE", f"{path}/{'people' if is_person else 'invitations'}/{found['id']}")
    click.echo("removed" if is_person else "withdrawn")


for _name, _work in (
    ("list", _list),
    ("invite", _invite),
    ("add", _add),
    ("token", _create_token),
    ("remove", _remove),
):
    add_command(command, _name, org_option(_work), _find_path, by="org")
