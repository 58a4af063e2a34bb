"""`molecule apps`: connected apps and OAuth clients from a shell."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.oauth_apps import REDIRECT, browser_of, connected
from testing.processes import MOLECULE, environment, started
from testing.running_server import ADMIN_TOKEN, Running, running
from tests.requirements import requirement


@pytest.fixture
async def issuer(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with a public address, in this process."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, has_public_url=True) as server:
        yield server


async def apps(issuer: Running, tmp_path: Path, *args: str) -> tuple[int, str]:
    """What the command says: exit code, and all that it printed."""
    env = environment(tmp_path / "state", issuer.port, MOLECULE_ADMIN_TOKEN=ADMIN_TOKEN)
    async with started(MOLECULE, "apps", *args, "--server", issuer.url, env=env) as process:
        code = await process.ended()
        return code, (await process.output() + process.said).strip()


@requirement("M39")
async def test_an_operator_lists_and_disconnects_apps_from_a_shell(issuer: Running, tmp_path: Path) -> None:
    seat = await issuer.seat("Ops")
    assert await apps(issuer, tmp_path, "list", "Ops") == (0, "no connected apps")
    browser, _ = await browser_of(issuer)
    app = await connected(issuer, browser, seat.id)
    code, listed = await apps(issuer, tmp_path, "list", "Ops")
    assert (code, "Test app: reads and acts, until " in listed) == (0, True)
    code, said = await apps(issuer, tmp_path, "disconnect", "Ops", "unknown")
    assert (code, "no connected app of this workspace has the id unknown" in said) == (2, True)
    assert await apps(issuer, tmp_path, "disconnect", "Ops", listed.split()[0]) == (0, "disconnected")
    assert await app.status() == 401


async def test_an_owner_registers_and_removes_a_client_from_a_shell(issuer: Running, tmp_path: Path) -> None:
    assert await apps(issuer, tmp_path, "clients") == (0, "no OAuth clients")
    code, said = await apps(issuer, tmp_path, "register", "Our app", REDIRECT)
    client_id = said.removeprefix("client ID: ")
    assert code == 0
    assert await apps(issuer, tmp_path, "clients") == (0, f"{client_id}  Our app: {REDIRECT}")
    code, said = await apps(issuer, tmp_path, "register", "Our app", "http://app.example/")
    assert (code, "redirect_uris is not valid" in said) == (2, True)
    code, said = await apps(issuer, tmp_path, "remove", "unknown")
    assert (code, "no OAuth client has the ID unknown" in said) == (2, True)
    assert await apps(issuer, tmp_path, "remove", client_id) == (0, "removed")
