"""`molecule up --lan`: a server for other machines of the local network."""

import asyncio
from pathlib import Path

import pytest

from molecule_core.cli.up import apply_lan_settings
from molecule_core.common.errors import BadSettings
from molecule_core.common.net.lan_address import find_lan_address
from molecule_core.common.settings import Settings
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, client, environment, started
from testing.running_server import ADMIN_TOKEN
from tests.requirements import requirement


@requirement("O1")
async def test_a_server_for_the_network_responds_under_its_address_there(tmp_path: Path) -> None:
    if (address := find_lan_address()) is None:
        pytest.skip("this machine has no address in a network")
    port = free_port()
    async with started(MOLECULE, "up", "--lan", env=environment(tmp_path, port)) as server:
        await server.says(LISTENS)
        async with asyncio.timeout(10), client(port) as local:
            made = await local.post("/workspaces", {"name": "Ops"})
        reader, writer = await asyncio.open_connection(address, port)
        writer.write(
            f"GET /session HTTP/1.1\r\nHost: {address}:{port}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n".encode()
        )
        status = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert status.startswith(b"HTTP/1.1 200")
    assert made["connection"]["platform_url"] == f"http://{address}:{port}"


@requirement("O1")
def test_the_public_url_is_the_address_in_the_network_and_never_every_address() -> None:
    found = apply_lan_settings(Settings(port=9000), "10.20.0.5")
    assert (found.host, found.url) == ("0.0.0.0", "http://10.20.0.5:9000")
    assert Settings(host="0.0.0.0").url == "http://127.0.0.1:8080"
    assert Settings(host="::").url == "http://[::1]:8080"


@requirement("O1")
@pytest.mark.parametrize(
    ("settings", "address", "word"),
    [
        (Settings(), None, "network"),
        (Settings(port=0), "10.20.0.5", "--port"),
        (Settings(public_url="https://molecule.example"), "10.20.0.5", "--public-url"),
    ],
)
def test_what_does_not_fit_is_refused(settings: Settings, address: str | None, word: str) -> None:
    with pytest.raises(BadSettings, match=word):
        apply_lan_settings(settings, address)
