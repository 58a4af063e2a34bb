"""`molecule workspace create --a2a-card` and `molecule workspace a2a`: an A2A agent of others from a shell."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from testing.ports import free_port
from testing.processes import MOLECULE, environment, serving, started

SECRET = "s3cret-of-the-agent"


@asynccontextmanager
async def card_server() -> AsyncIterator[str]:
    """A server that shows a card; the address of the card."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        port = server.sockets[0].getsockname()[1]
        card = {"name": "Translator", "url": f"http://127.0.0.1:{port}/rpc", "protocolVersion": "0.3.0"}
        body = json.dumps(card).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/card.json"
    finally:
        server.close()


async def test_an_agent_is_added_shown_exported_and_ended_without_its_secret(tmp_path: Path) -> None:
    state, credential = tmp_path / "state", tmp_path / "credential.json"
    credential.write_text(json.dumps({"kind": "bearer", "secret": SECRET}))
    variables = environment(state, 0)
    del variables["MOLECULE_PORT"]

    async def run(*args: str) -> tuple[int, str]:
        async with started(MOLECULE, *args, env=variables) as process:
            code = await process.ended()
            return code, (await process.output() + process.said).strip()

    async with card_server() as url, serving(state, free_port(), MOLECULE_PUSH_NETWORKS="127.0.0.0/8"):
        created = await run("workspace", "create", "Ops", "--a2a-card", url, "--a2a-credential", str(credential))
        shown = await run("workspace", "a2a", "Ops")
        exported = await run("org", "export")
        (tmp_path / "org.toml").write_text(exported[1])
        planned = await run("org", "plan", str(tmp_path / "org.toml"))
        ended = await run("workspace", "a2a", "Ops", "--end")
        gone = await run("workspace", "a2a", "Ops")
        wrong = await run("workspace", "create", "Other", "--a2a-card", f"{url}?", "--a2a-credential", "/missing")
    assert [each[0] for each in (created, shown, exported, planned, ended)] == [0, 0, 0, 0, 0]
    assert (gone[0], wrong[0]) == (2, 2)
    assert "version: 0.3" in shown[1]
    assert "credential: bearer" in shown[1]
    assert f'a2a_card_url = "{url}"' in exported[1]
    assert [text for _, text in (created, shown, exported, planned) if SECRET in text] == []
