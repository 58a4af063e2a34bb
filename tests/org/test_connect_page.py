"""What the server says to people who connect an agent, and what waits in an inbox, to whoever may look."""

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.tools.host_config import HOST_NAMES, HOSTS
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement


async def shell(text: str, home: Path, told: str = "") -> str:
    """What lines say that are pasted into a shell."""
    pipe = asyncio.subprocess.PIPE
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        "sh", "-e", "-c", text, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=home
    )
    async with asyncio.timeout(PROCESS_START_SECONDS):
        out, err = await process.communicate(told.encode())
    assert (process.returncode, err) == (0, b""), err
    return out.decode()


@requirement("G24", "C81", "O3")
async def test_for_each_host_the_page_says_what_to_do_with_this_seats_values_and_no_secret(server: Running) -> None:
    seat = await server.seat("Ops")
    operator = await server.person("operator")
    rows = await operator.get("/hosts")
    assert [row["name"] for row in rows] == list(HOST_NAMES)
    for host in HOSTS:
        page = await operator.get(f"/workspaces/{seat.id}/connect", host=host.name)
        text = json.dumps(page)
        assert (page["host"], page["title"]) == (host.name, host.title)
        assert "mol_" not in text
        assert server.server.settings.url in text
        steps = [*page["by_hand"], *([page["quick"]] if page["quick"] else [])]
        assert all(seat.id in step["text"] for step in steps)
        assert (page["quick"] is None) == (not host.entry_path)
        if page["quick"]:
            words = shlex.split(page["quick"]["text"])
            assert words[:5] == ["molecule", "connect", host.name, "--workspace", seat.id]
    first = await operator.get(f"/workspaces/{seat.id}/connect")
    assert first["host"] == HOST_NAMES[0]
    with pytest.raises(ApiError) as refused:
        await operator.get(f"/workspaces/{seat.id}/connect", host="emacs")
    assert refused.value.status == 422
    assert "claude-code" in str(refused.value)


@requirement("C81")
async def test_the_lines_for_curl_work_as_they_are_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path) as server:
        # The server of a test listens on a port that its settings name too.
        seat = await server.seat("Ops")
        page = await server.admin.get(f"/workspaces/{seat.id}/connect", host="curl")
        keep, ask = (step["text"] for step in page["by_hand"])
        await shell(keep, home, told=seat.token + "\n")
        (token_file,) = (home / ".molecule" / "agents").iterdir()
        assert (token_file.read_text(), token_file.stat().st_mode & 0o777) == (seat.token + "\n", 0o600)
        await server.admin.send(seat.id, "are you there?")
        said = [json.loads(line) for line in (await shell(ask, home)).splitlines()]
        assert said[0]["status"] == "registered"
        assert said[1] == {"status": "ok"}
        (message,) = said[2]
        assert message["attempt"] == 1
        chat = await server.admin.get(f"/workspaces/{seat.id}/chat-history")
        assert [each["content"] for each in chat["messages"]] == ["are you there?", "I am here."]


# -- waiting mail ------------------------------------------------------------------------------------------------------


async def waiting(server: Running, seat: Any) -> dict[str, Any]:
    """What waits, without its times."""
    mail = dict(await seat.api.get(f"/workspaces/{seat.id}/waiting"))
    assert (mail["oldest_at"] is None) == (mail["waiting"] == 0)
    return {name: value for name, value in mail.items() if name != "oldest_at"}


@requirement("G15h", "M18")
async def test_mail_that_waits_is_counted_by_sender_until_it_is_acked_and_looking_takes_nothing(
    server: Running,
) -> None:
    ops, lead = await server.seat("Ops"), await server.seat("Lead")
    nothing = {"workspace_id": ops.id, "name": "Ops", "waiting": 0, "more": False, "senders": []}
    assert await waiting(server, ops) == nothing
    await lead.api.send(ops.id, "a")
    await server.admin.send(ops.id, "b")
    await lead.api.send(ops.id, "c")
    of_lead, of_person = {"workspace_id": lead.id, "name": "Lead"}, {"workspace_id": "", "name": ""}
    both = {**nothing, "waiting": 3, "senders": [{**of_lead, "count": 2}, {**of_person, "count": 1}]}
    assert await waiting(server, ops) == both
    rows = await ops.api.claim(ops.id, wait=0)
    assert [row["attempt"] for row in rows] == [1, 1, 1]
    assert await waiting(server, ops) == both
    await ops.api.ack(ops.id, rows[1])
    assert await waiting(server, ops) == {**nothing, "waiting": 2, "senders": [{**of_lead, "count": 2}]}
    await ops.api.ack(ops.id, rows[0])
    await ops.api.ack(ops.id, rows[2])
    assert await waiting(server, ops) == nothing


@requirement("G15h")
async def test_what_has_expired_does_not_wait_and_more_than_is_counted_is_said(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        ops = await server.seat("Ops")
        params = {"message": {"parts": [{"kind": "text", "text": "soon"}]}, "expires_in_seconds": 5}
        await server.admin.post(f"/workspaces/{ops.id}/a2a", {"params": params})
        assert (await waiting(server, ops))["waiting"] == 1
        await clock.advance(10)
        assert (await waiting(server, ops))["waiting"] == 0
        for number in range(101):
            await server.admin.send(ops.id, str(number))
        mail = await waiting(server, ops)
        assert (mail["waiting"], mail["more"], mail["senders"][0]["count"]) == (100, True, 100)
